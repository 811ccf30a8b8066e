"""Processes around the device: building, importing, forking, ending."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from stallscope.profiler.recording.errors import CaptureError, UsageError
from stallscope.samples import simulated_accelerator
from stallscope.samples.simulated_accelerator import build


def run(code: str, *, expect: int = 0, **environment: str) -> str:
    """Runs a script in a process of its own and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == expect, done.stderr[-3000:]
    return done.stdout


LOAD = "import torch\nimport stallscope.samples.simulated_accelerator as sim\nsim.load()\n"


def test_it_imports_without_torch_and_says_what_is_missing() -> None:
    printed = run("""
        import sys
        sys.modules["torch"] = None
        import stallscope.samples.simulated_accelerator as sim
        print(sim.unavailable_reason())
        try:
            sim.load()
        except sim.CaptureError as error:
            print(error)
    """)
    assert printed.splitlines()[0] == "The simulated accelerator needs PyTorch, which is not installed."
    assert "Use the CPU instead." in printed


def test_it_says_that_it_is_not_loaded() -> None:
    run("""
        import stallscope.samples.simulated_accelerator as sim
        assert not sim.is_loaded()
        try:
            sim.engine_log()
        except sim.UsageError as error:
            assert "load()" in str(error)
        else:
            raise SystemExit(3)
    """)
    assert issubclass(UsageError, Exception)


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch")
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def fake_compiler(folder: Path, body: str) -> str:
    """A compiler that notes each call, waits a little and then does as told; ``$output`` is the file to write."""
    script = folder / "compiler"
    script.write_text(
        f'#!/bin/sh\necho call >> "{folder}/calls"\nsleep 0.05\n'
        'while [ "$1" != -o ]; do shift; done\noutput=$2\n' + body + "\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_without_a_compiler_the_reason_is_given(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "compiler", lambda: None)
    assert "no C++ compiler" in (build.unavailable_reason() or "")
    with pytest.raises(CaptureError, match="no C\\+\\+ compiler"):
        build.build()


def test_a_failing_compiler_is_reported_with_its_error(
    fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, "echo 'clock.h:3: error: no such clock' >&2; exit 1"))
    told: list[str] = []
    with pytest.raises(CaptureError, match="no such clock"):
        build.build(told.append)
    assert [text.split(" (")[0] for text in told] == ["Building the simulated accelerator"]
    assert not build.library_path().exists()


def test_two_processes_build_it_once(fresh_cache: Path, tmp_path: Path) -> None:
    compiler = fake_compiler(tmp_path, 'echo built > "$output"')
    code = "from stallscope.samples.simulated_accelerator import build; print(build.build())"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=os.environ | {"CXX": compiler}, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    printed = [process.communicate(timeout=120)[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert printed[0] == printed[1]
    assert Path(printed[0]).read_text() == "built\n"
    sources = list(build.SOURCES.glob("*.cpp"))
    assert len((tmp_path / "calls").read_text().splitlines()) == len(sources) + 1
    assert sorted(path.name for path in Path(printed[0]).parent.iterdir()) == sorted([Path(printed[0]).name, "lock"])


def test_another_source_is_another_library(fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.library_path()
    changed = tmp_path / "csrc"
    changed.mkdir()
    for source in build.SOURCES.iterdir():
        (changed / source.name).write_bytes(
            source.read_bytes() + (b"\n// changed\n" if source.name == "clock.h" else b"")
        )
    monkeypatch.setattr(build, "SOURCES", changed)
    assert build.library_path() != before


def test_loading_twice_is_loading_once(loaded: Any) -> None:
    loaded.load()
    assert simulated_accelerator.is_loaded()
    assert simulated_accelerator.unavailable_reason() is None


def test_another_device_of_the_same_kind_is_refused(loaded: Any) -> None:
    printed = run("""
        import torch
        torch.utils.rename_privateuse1_backend("other")
        import stallscope.samples.simulated_accelerator as sim
        try:
            sim.load()
        except sim.CaptureError as error:
            print(error)
    """)
    assert "has 'other' already" in printed


@pytest.mark.parametrize("ending", ["pass", "del x, y; sys.exit(0)"])
def test_a_process_ends_with_work_in_flight(loaded: Any, ending: str) -> None:
    run(
        LOAD + "import sys\nsim.set_speed('tensor', overhead_ns=20_000_000)\n"
        "x = torch.ones(8, 8, device='sim', requires_grad=True)\n"
        "for _ in range(500): y = x @ x\ny.sum().backward()\n" + ending
    )


def test_an_exception_ends_the_process_as_usual(loaded: Any) -> None:
    run(LOAD + "x = torch.ones(8, device='sim')\nx.add_(1)\nraise ValueError('mine')", expect=1)


def test_an_error_on_the_device_does_not_hold_up_the_end(loaded: Any) -> None:
    run(
        LOAD + "t = torch.ones(3, 2, device='sim')\n"
        "torch.nn.functional.embedding(torch.tensor([9], device='sim'), t)\nfor _ in range(50): t.add_(1)"
    )


def test_launching_after_the_end_says_so(loaded: Any) -> None:
    printed = run(
        "import atexit\n" + "atexit.register(lambda: late())\n" + LOAD + "x = torch.ones(3, device='sim')\n"
        "def late():\n    try:\n        x.add_(1)\n    except RuntimeError as error:\n        print(error)\n"
    )
    assert "has been shut down" in printed


def test_workers_of_a_data_loader_may_be_forked(loaded: Any) -> None:
    printed = run(
        LOAD
        + """
from torch.utils.data import DataLoader, TensorDataset
x = torch.ones(4, device="sim")
x.add_(1)
loader = DataLoader(TensorDataset(torch.arange(64.0)), batch_size=8, num_workers=2, pin_memory=True,
                    multiprocessing_context="fork")
total = torch.zeros((), device="sim")
for _ in range(2):
    for (batch,) in loader:
        assert batch.is_pinned()
        total += batch.to("sim", non_blocking=True).sum()
print(total.item())
"""
    )
    assert float(printed) == 2 * sum(range(64))


def test_a_forked_child_cannot_use_the_device_and_is_told(loaded: Any) -> None:
    printed = run(
        LOAD
        + """
import os, sys
x = torch.ones(4, device="sim")
x.add_(1)
torch.accelerator.synchronize()
sys.stdout.flush()
child = os.fork()
if child == 0:
    try:
        x.add_(1)
    except RuntimeError as error:
        print(error, flush=True)
    torch.manual_seed(3)  # as workers of a data loader do
    del x
    sys.exit(0)
_, status = os.waitpid(child, 0)
x.add_(1)
print(status, x.tolist())
"""
    )
    assert "cannot be used in the child" in printed.splitlines()[0]
    assert printed.splitlines()[-1] == "0 [3.0, 3.0, 3.0, 3.0]"


def test_a_child_of_a_process_that_has_not_used_the_device_may_use_it(loaded: Any) -> None:
    printed = run(
        LOAD
        + """
import os, sys
child = os.fork()
if child == 0:
    print((torch.ones(2, device="sim") + 1).tolist(), flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1])
"""
    )
    assert printed.splitlines() == ["[2.0, 2.0]", "0"]
