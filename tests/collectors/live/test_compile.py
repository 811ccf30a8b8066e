"""What torch.compile did, in a process of its own: compiled code and counters outlive a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stallscope.profiler.recording.captured_rows import LANE
from tests.session.workloads import all_losses, opened, run_python

PROGRAM = """
import torch, stallscope
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def loss_of(x):
    y = model(x)
    if BREAK:
        print("breaks the graph")
    return y.pow(2).mean()

BREAK = False
compiled = torch.compile(loss_of, backend="BACKEND", dynamic=False)
losses = []
def train(step_done):
    for number in range(8):
        x = torch.ones(4 if number < 5 else 6, 8)
        loss = compiled(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        step_done()
if RECORD:
    with stallscope.profile("run", detail="DETAIL") as prof:
        train(prof.step)
        BREAK = True
        torch.compile(loss_of, backend="BACKEND")(torch.ones(2, 8))
else:
    train(lambda: None)
print(losses)
"""


def run(folder: Path, backend: str, detail: str, recorded: bool) -> list[float]:
    text = PROGRAM.replace("BACKEND", backend).replace("DETAIL", detail).replace("RECORD", str(recorded))
    (folder / "train.py").write_text(text)
    ran = run_python("train.py", cwd=folder, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return list(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize("detail", ["low", "normal"])
def test_compilations_recompilations_and_breaks(detail: str, tmp_path: Path) -> None:
    assert run(tmp_path, "aot_eager", detail, recorded=True) == run(tmp_path, "aot_eager", detail, recorded=False)
    recording = opened(tmp_path / "run")
    slices = recording.table("slices").to_pylist()
    ours = [row for row in slices if row["category"] == "compile" and row["lane"] == LANE]
    compiled = [row for row in ours if row["kind"] == "complete"]
    assert len(compiled) >= 3
    by_id = {row["compile_id"]: json.loads(row["args"]) for row in compiled if row["args"]}
    assert by_id["0/0"]["co_name"] == "loss_of"
    assert "recompile_reason" not in by_id["0/0"]
    assert "size mismatch" in by_id["0/1"]["recompile_reason"] or "shape" in by_id["0/1"]["recompile_reason"]
    assert any(row["name"] == "recompiled: loss_of" for row in ours)
    assert any(row["name"] == "graph break" and "print" in row["args"] for row in ours)
    assert all(row["stack_id"] is not None for row in compiled)
    # The step in which it compiled again is a step like any other; the first ones are preparation.
    steps = recording.table("steps").to_pylist()
    again = next(row for row in compiled if row["compile_id"] == "0/1")
    inside = [s for s in steps if s["ts"] <= again["ts"] and again["ts"] + again["dur"] <= s["ts"] + s["dur"]]
    assert [step["step"] for step in inside] == [5]
    assert inside[0]["phase"] == "execution"
    assert steps[0]["phase"] == "preparation"
    told = {row["kind"] for row in all_losses(recording)}
    # Ranges of C++ are open around the compiler: a session that ended there would end the process.
    assert "suspended" not in told


@pytest.mark.slow
def test_inductor(tmp_path: Path) -> None:
    assert run(tmp_path, "inductor", "normal", recorded=True) == run(tmp_path, "inductor", "normal", recorded=False)
    recording = opened(tmp_path / "run")
    assert recording.rank_info(0)["status"] == "completed"
    tracks = {row["name"] for row in recording.table("tracks").to_pylist()}
    assert any(name.startswith("inductor: ") for name in tracks)


def test_a_compiled_optimizer_step_still_marks_steps(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch, stallscope\ntorch.set_num_threads(1)\n"
        "model = torch.nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "@torch.compile(backend='eager', fullgraph=False)\ndef update():\n    optimizer.step()\n"
        "with stallscope.profile('run', detail='always'):\n"
        "    for _ in range(6):\n        model(torch.ones(2, 4)).sum().backward(); update(); optimizer.zero_grad()\n"
    )
    ran = run_python("train.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert opened(tmp_path / "run").rank_info(0)["status"] == "completed"
