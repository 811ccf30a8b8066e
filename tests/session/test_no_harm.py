"""The converter is killed, the disk is full, memory is short: the training goes on, and the recording says so."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import stallscope
from stallscope.profiler.session.guard import CollectorWarning

from .workloads import Training, all_losses, losses_without_recording, opened, run_python


def test_a_killed_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallscope.profiler.session.session.TICK_S", 0.01)
    training = Training()
    losses = []
    with stallscope.profile(tmp_path / "run", detail="low", schedule="0,0,2,0", segment_events=1000) as prof:
        session = prof._session
        assert session is not None
        torch_collector = next(one for one in session._collectors if one.name == "torch")
        for number in range(6):
            losses.append(training.step())
            if number == 2:
                torch_collector._end()  # type: ignore[attr-defined]
                process = session._conversion._process
                assert process is not None
                process.send_signal(signal.SIGKILL)
                process.wait()
            prof.step()
    assert losses == losses_without_recording(6)
    recording = opened(tmp_path / "run")
    told = {row["kind"] for row in all_losses(recording) if row["collector"] == "converter"}
    assert told == {"converter_failed", "not_converted"}
    names = recording.table("slices", columns=["name"])["name"].to_pylist()
    assert names.count("aten::addmm") == 12


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    return folder


@pytest.mark.filterwarnings("ignore::stallscope.profiler.session.guard.CollectorWarning")
def test_a_full_disk(small_disk: Path) -> None:
    training = Training()
    losses = []
    try:
        with stallscope.profile(small_disk / "run", detail="low") as prof:
            filler = small_disk / "filler"
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * 4096)
            for _ in range(200):
                losses.append(training.step())
                prof.step()
        assert losses == losses_without_recording(200)
        filler.unlink()
        recording = opened(small_disk / "run")
        assert recording.rank_info(0)["status"] in ("running", "failed", "completed")
        recording.table("slices")
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=True)


@pytest.mark.filterwarnings("ignore::stallscope.profiler.session.guard.CollectorWarning")
def test_a_disk_that_fills_up_in_the_middle_says_what_is_missing(small_disk: Path) -> None:
    """The trace alone is larger than the disk; the rows of the other collectors fit."""
    training = Training()
    losses = []
    try:
        with stallscope.profile(small_disk / "run", detail="low") as prof:
            for _ in range(250):
                losses.append(training.step())
                prof.step()
        assert losses == losses_without_recording(250)
        recording = opened(small_disk / "run")
        told = [row for row in all_losses(recording) if row["severity"] == "data_loss"]
        assert any("is the disk full?" in (row["detail"] or "") for row in told), told
        assert recording.table("steps").num_rows == 250
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=True)


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    import shutil

    training = Training()
    losses = []
    with pytest.warns(CollectorWarning), stallscope.profile(tmp_path / "run", detail="low") as prof:
        for number in range(6):
            losses.append(training.step())
            prof.step()
            if number == 2:
                shutil.rmtree(tmp_path / "run")
    assert losses == losses_without_recording(6)


MANY_STEPS = """
import json, resource, time
import torch, stallscope
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(4, 16)
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
sizes = []
with stallscope.profile("run", detail="low", convert=False) as prof:
    for number in range(10000):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        prof.step()
        if number % 500 == 499:
            sizes.append(resident())
json.dump(sizes, open("sizes.json", "w"))
"""


@pytest.mark.slow
def test_ten_thousand_steps_stay_under_a_limit_with_flat_memory(tmp_path: Path) -> None:
    """Three million events: torch alone would hold 1.3 GB of them and need twice that to export."""
    import json

    # The limit counts address space, of which torch maps much more than it uses.
    (tmp_path / "train.py").write_text(MANY_STEPS.format(limit=4 << 30))
    began = time.monotonic()
    ran = run_python("train.py", cwd=tmp_path, timeout=600)
    assert ran.returncode == 0, ran.stderr
    sizes = json.loads((tmp_path / "sizes.json").read_text())
    settled = sizes[4:]
    assert max(sizes) < 2 << 30
    assert max(settled) < 1.25 * min(settled), [size >> 20 for size in sizes]
    info = opened_info(tmp_path / "run")
    assert info["status"] == "completed"
    assert info["steps"] == 10_000
    raw = sorted((tmp_path / "run").rglob("segment-*.json"))
    assert len([path for path in raw if "meta" not in path.name]) >= 10
    assert time.monotonic() - began < 600


def opened_info(path: Path) -> dict[str, object]:
    """rank.json, without converting the segments first."""
    import json

    return dict(json.loads((path / "ranks" / "rank=00000" / "attempt=0" / "rank.json").read_text()))
