"""Two ranks under torchrun: one recording, each rank its own folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .workloads import all_losses, opened, run_python

TRAIN = """
import json, os, sys
import torch, torch.distributed as dist

def train(step_done=lambda: None):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for number in range(6):
        torch.manual_seed(number * 10 + dist.get_rank())
        loss = model(torch.randn(4, 64)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        step_done()
    value = torch.ones(1000)
    dist.all_reduce(value)
    if dist.get_rank() == 0:
        dist.send(value, 1)
    else:
        dist.recv(value, 0)
    dist.barrier()
    dist.destroy_process_group()
    with open(f"losses-{os.environ['RANK']}.json", "w") as file:
        json.dump(losses, file)
"""

INSIDE = (
    TRAIN
    + """
import stallscope
with stallscope.profile("run", detail="low") as prof:
    train(prof.step)
"""
)

FAULTY = (
    """
import sys
from importlib.metadata import entry_points
def broken(*args, **kwargs):
    print("FIRED", flush=True)
    raise RuntimeError("broken on purpose")
collector, method = sys.argv[1].split(".")
made = next(p for p in entry_points(group="stallscope.collectors") if p.name == collector).load()
setattr(made if hasattr(made, method) else sys.modules[made.__module__], method, broken)
"""
    + INSIDE
)


def torchrun(folder: Path, *arguments: str) -> tuple[object, list[list[float]]]:
    ran = run_python(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments, cwd=folder, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    return ran, [json.loads((folder / f"losses-{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def plain_losses(tmp_path_factory: pytest.TempPathFactory) -> list[list[float]]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "train.py").write_text(TRAIN + "train()\n")
    return torchrun(folder, "train.py")[1]


def check(folder: Path) -> None:
    recording = opened(folder / "run")
    assert recording.ranks == (0, 1)
    assert recording.info["world_size"] == 2
    for rank in (0, 1):
        info = recording.rank_info(rank)
        assert info["status"] == "completed"
        assert info["local_rank"] == rank
        assert recording.table("steps", ranks=rank).num_rows == 6
        names = recording.table("slices", ranks=rank, columns=["name"])["name"].to_pylist()
        assert names.count("aten::addmm") == 6
        rows = recording.table("collectives", ranks=rank).to_pylist()
        numbered = sorted(row["sequence_number"] for row in rows if row["sequence_number"] is not None)
        assert len(set(numbered)) == len(numbered)
        assert numbered == list(range(numbered[0], numbered[0] + len(numbered)))
        assert [row["kind"] for row in rows].count("barrier") == 1
        reduced = [row for row in rows if row["kind"] == "all_reduce"]
        assert sum(row["in_bytes"] == (64 * 64 + 64) * 4 for row in reduced) >= 6
        assert sum(row["in_bytes"] == 4000 for row in reduced) == 1
        peers = {row["kind"]: row["peer_rank"] for row in rows if row["peer_rank"] is not None}
        assert peers == ({"send": 1} if rank == 0 else {"recv": 0})
        slices = {row["slice_id"]: row for row in recording.table("slices", ranks=rank).to_pylist()}
        of_torch = [slices[row["slice_id"]] for row in rows if slices[row["slice_id"]]["name"].startswith("gloo:")]
        assert len(of_torch) >= 8
        assert all(row["dur"] > 0 for row in of_torch)
        groups = recording.table("groups", ranks=rank).to_pylist()
        assert groups
        assert all(group["ranks"] == [0, 1] for group in groups)
        assert {row["group_id"] for row in rows} <= {group["group_id"] for group in groups}
        assert "collectives_missed" not in {row["kind"] for row in all_losses(recording)}
    both = [
        {
            (row["kind"], row["sequence_number"])
            for row in recording.table("collectives", ranks=rank).to_pylist()
            if row["sequence_number"] is not None
        }
        for rank in (0, 1)
    ]
    assert both[0] == both[1]


def test_the_context_manager_under_torchrun(tmp_path: Path, plain_losses: list[list[float]]) -> None:
    (tmp_path / "train.py").write_text(INSIDE)
    _, losses = torchrun(tmp_path, "train.py")
    assert losses == plain_losses
    check(tmp_path)


def test_record_under_torchrun(tmp_path: Path, plain_losses: list[list[float]]) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "train()\n")
    ran, losses = torchrun(tmp_path, "-m", "stallscope", "record", "-o", "run", "--detail", "low", "train.py")
    assert losses == plain_losses
    check(tmp_path)
    assert "run: 6 steps recorded" in ran.stderr  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        "collectives._begin",
        "collectives._end",
        "collectives._wait_begins",
        "collectives._wait_ends",
        "collectives._write",
        "collectives._group",
        "collectives._finish",
        "collectives._note_of_entry",
        "collectives._described_by_torch",
        "torch.describe_program",
        "steps.on_step",
        "torch._export",
    ],
)
def test_faults_under_ddp(method: str, tmp_path: Path, plain_losses: list[list[float]]) -> None:
    (tmp_path / "train.py").write_text(FAULTY)
    ran, losses = torchrun(tmp_path, "train.py", method)
    assert "FIRED" in ran.stdout  # type: ignore[attr-defined]
    assert losses == plain_losses
    recording = opened(tmp_path / "run")
    for rank in (0, 1):
        assert recording.rank_info(rank)["status"] == "completed"
        kinds = {(row["collector"], row["kind"]) for row in recording.table("losses", ranks=rank).to_pylist()}
        assert (method.split(".")[0], "collector_error") in kinds


def test_a_second_job_in_the_same_folder_is_refused_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch, stallscope\nwith stallscope.profile('run', detail='always') as p:\n    p.step()\n"
    )
    for expected in (0, 1):
        ran = run_python(
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "train.py",
            cwd=tmp_path,
            timeout=240,
        )
        assert (ran.returncode != 0) == expected, ran.stderr
    assert "another run" in ran.stderr
    assert opened(tmp_path / "run").attempts(0) == (0,)
