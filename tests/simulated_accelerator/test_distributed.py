"""Collectives of two processes on the device's collective queue."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def reports(loaded: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("torch has no gloo")
    store = tmp_path_factory.mktemp("store") / "store"
    command = [sys.executable, "-m", "tests.simulated_accelerator.ddp_script"]
    processes = [
        subprocess.Popen([*command, str(rank), "2", str(store)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    printed = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return [json.loads(text.splitlines()[-1]) for text in printed]


def test_two_ranks_train_like_one_process_on_the_cpu(reports: list[dict[str, Any]]) -> None:
    from .models import MODELS, batches

    torch.manual_seed(0)
    model = MODELS["perceptron"]()
    (inputs, classes), *_ = batches("perceptron", 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(inputs), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for report in reports:
        assert report["train"]["losses"] == pytest.approx(losses, rel=1e-4)
        assert report["train"]["fallbacks"] == {}


def test_collectives_run_on_their_own_queue(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert report["train"]["queues"] == ["collective"]
        assert report["train"]["names"].count("sim::ccl::allreduce_kernel<float>") == 6
    assert reports[0]["train"]["bytes"] == reports[1]["train"]["bytes"]


def test_a_collective_starts_with_its_rank_and_ends_after_the_last_one(reports: list[dict[str, Any]]) -> None:
    first, second = (report["train"] for report in reports)
    assert first["peers"] == second["peers"], "both ranks know when the last one came"
    for i, peers in enumerate(first["peers"]):
        assert max(first["start"][i], second["start"][i]) == peers
        assert min(first["end"][i], second["end"][i]) >= peers + 20_000


def test_what_the_ranks_exchange_arrives(reports: list[dict[str, Any]]) -> None:
    first, second = (report["exchange"] for report in reports)
    for exchange in (first, second):
        assert exchange["gathered"] == [[0, 1, 2], [10, 11, 12]]
        assert exchange["broadcast"] == [1, 1]
        assert exchange["received"] == [5, 5]
    assert first["swapped"] == [0, 1, 10, 11]
    assert second["swapped"] == [2, 3, 12, 13]


def test_a_rank_that_is_alone_does_not_hang_at_exit(loaded: Any, tmp_path: Path) -> None:
    code = (
        "import torch, torch.distributed as dist, datetime\n"
        "import stallscope.samples.simulated_accelerator as sim\nsim.load()\n"
        f"dist.init_process_group('cpu:gloo,sim:simgloo', init_method='file://{tmp_path}/one', rank=0, world_size=1)\n"
        "x = torch.ones(3, device='sim')\ndist.all_reduce(x)\nprint(x.tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "[1.0, 1.0, 1.0]"


def test_a_rank_whose_peer_is_gone_is_told(loaded: Any, tmp_path: Path) -> None:
    code = f"""
import datetime, os, sys, torch, torch.distributed as dist
import stallscope.samples.simulated_accelerator as sim
sim.load()
rank = int(sys.argv[1])
dist.init_process_group("cpu:gloo,sim:simgloo", init_method="file://{tmp_path}/two", rank=rank, world_size=2,
                        timeout=datetime.timedelta(seconds=20))
x = torch.ones(3, device="sim")
dist.all_reduce(x)
assert x.tolist() == [2, 2, 2]
if rank == 1:
    os._exit(3)
dist.all_reduce(x)
try:
    torch.accelerator.synchronize()
except RuntimeError as error:
    print(error)
"""
    ranks = [
        subprocess.Popen([sys.executable, "-c", code, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    printed = [process.communicate(timeout=90)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 3]
    assert "a kernel failed earlier: sim::ccl::allreduce_kernel<float>" in printed[0]
