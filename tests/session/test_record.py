"""``stallscope record``: the program notices nothing, and ends as it would have."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .workloads import all_losses, opened, record, run_python

TRAIN = """
import atexit, os, pickle, sys, __main__
import torch

class Holder:
    pass

def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        loss = model(torch.ones(4, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    print(losses)

print(sys.argv, __name__, __file__, __package__, __spec__ and __spec__.name, sys.path[0], __main__.__file__)
print(pickle.loads(pickle.dumps(Holder())).__class__)
atexit.register(lambda: print("exit handler"))
main()
if "fail" in sys.argv: raise ValueError("broken")
if "exit" in sys.argv: sys.exit(7)
if "message" in sys.argv: sys.exit("bye")
if "interrupt" in sys.argv: os.kill(os.getpid(), 2)
if "terminate" in sys.argv: os.kill(os.getpid(), 15)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(TRAIN)
    (tmp_path / "package" / "__main__.py").write_text(TRAIN)
    return tmp_path


@pytest.mark.parametrize("ending", ["", "fail", "exit", "message", "interrupt", "terminate"])
def test_output_and_exit_code_are_the_programs_own(project: Path, ending: str) -> None:
    arguments = ["train.py", "--detail", "x", *([ending] if ending else [])]
    plain = run_python(*arguments, cwd=project)
    recorded = record("-o", "run", "--detail", "low", *arguments, cwd=project)
    assert recorded.stdout == plain.stdout
    assert recorded.stderr == plain.stderr
    assert recorded.returncode == plain.returncode
    info = opened(project / "run").rank_info(0)
    status = {"": "completed", "terminate": "killed"}.get(ending, "failed")
    assert info["status"] == status
    assert info["steps"] == 5
    if ending == "fail":
        assert info["exception"] == {"type": "ValueError", "message": "broken"}
    if ending == "terminate":
        assert info["signal"] == "SIGTERM"
    assert opened(project / "run").table("steps").num_rows == 5
    names = opened(project / "run").table("slices", columns=["name"])["name"].to_pylist()
    assert names.count("aten::addmm") == 5


@pytest.mark.parametrize("module", ["package.train", "package"])
def test_a_module_runs_as_with_python_m(project: Path, module: str) -> None:
    plain = run_python("-m", module, "--lr", "3", cwd=project)
    recorded = record("-o", "run", "--detail", "low", "-m", module, "--lr", "3", cwd=project)
    assert plain.returncode == 0
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (plain.stdout, plain.stderr, 0)


def test_frames_begin_in_the_program(project: Path) -> None:
    record("-o", "run", "--detail", "low", "--collectors", "sampler,io,torch,steps", "train.py", cwd=project)
    recording = opened(project / "run")
    files = {frame["frame_id"]: str(frame["file"]) for frame in recording.table("frames").to_pylist()}
    # Python's faulthandler tells the hundred innermost frames: where a longer stack begins is not known.
    whole = [row["frame_ids"] for row in recording.table("stacks").to_pylist() if len(row["frame_ids"]) < 80]
    assert len(whole) > 5
    outermost = {files[frame_ids[0]] for frame_ids in whole}
    # The import of the program itself is ours until its first line runs.
    assert {Path(file).name for file in outermost} == {"train.py"}


def test_a_program_that_is_not_there_or_not_python(project: Path) -> None:
    (project / "wrong.py").write_text("def broken(:\n")
    absent = record("-o", "run", "absent.py", cwd=project)
    assert absent.returncode == 2
    assert "absent.py cannot be read" in absent.stderr
    unknown = record("-o", "run", "-m", "no_such_module_here", cwd=project)
    assert unknown.returncode == 2
    assert "no_such_module_here" in unknown.stderr
    assert record("-o", "run", "wrong.py", cwd=project).returncode == 1
    assert not (project / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_finished_recording(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "serve.py").write_text(
        "import torch, time\nm = torch.nn.Linear(4, 4)\nprint('ready', flush=True)\n"
        "while True:\n    m(torch.ones(1, 4)); time.sleep(0.01)\n"
    )
    command = [sys.executable, "-m", "stallscope", "record", "--quiet", "-o", "run", "--detail", "low", "serve.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    process.stdout.close()
    recording = opened(tmp_path / "run")
    assert recording.rank_info(0)["status"] == ("failed" if number == signal.SIGINT else "killed")
    assert "aten::addmm" in recording.table("slices", columns=["name"])["name"].to_pylist()
    assert "damaged_file" not in {row["kind"] for row in all_losses(recording)}


def test_kill_9_leaves_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, torch, stallscope\n"
        "with stallscope.profile('run', detail='low', schedule='0,0,3,0') as prof:\n"
        "    m = torch.nn.Linear(4, 4)\n"
        "    for i in range(3):\n        m(torch.ones(1, 4)); prof.step()\n"
        "    from stallscope.profiler.session import running\n"
        "    s = running.session(); torch_collector = [c for c in s._collectors if c.name == 'torch'][0]\n"
        "    torch_collector._end(); s._drain(); s._writer.flush()\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert run_python("train.py", cwd=tmp_path).returncode == -9
    recording = opened(tmp_path / "run")
    assert recording.rank_info(0)["status"] == "killed"
    assert recording.table("steps").num_rows == 3
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        names = opened(tmp_path / "run").table("slices", columns=["name"])["name"].to_pylist()
        if names.count("aten::addmm") == 3:
            break
        time.sleep(0.2)
    assert names.count("aten::addmm") == 3


CHILDREN = """
import multiprocessing, os, torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, i):
        return torch.full((4,), float(i))

def work(queue):
    queue.put(float(torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum() * 0 + 3))

if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(Rows(), batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in range(2):
        print([float(batch.sum()) for batch in loader])
    for method in ("spawn", "fork"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(queue.get(timeout=60))
        child.join()
        print(child.exitcode)
"""


def test_children_work_as_ever_and_do_not_record(tmp_path: Path) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    plain = run_python("children.py", cwd=tmp_path)
    recorded = record("-o", "run", "--detail", "low", "children.py", cwd=tmp_path)
    assert plain.returncode == 0
    assert (recorded.stdout, recorded.returncode) == (plain.stdout, 0), recorded.stderr
    recording = opened(tmp_path / "run")
    assert recording.ranks == (0,)
    assert recording.attempts(0) == (0,)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"] == ["run"]
    waits = [row for row in recording.table("slices").to_pylist() if row["name"] == "DataLoader.__next__"]
    assert len(waits) == 10  # four batches and the end, twice
    assert all(row["category"] == "input" and '"workers": 2' in row["args"] for row in waits)
    tracks = {track["track_id"]: track["name"] for track in recording.table("tracks").to_pylist()}
    counted = {tracks[row["track_id"]] for row in recording.table("counters").to_pylist()}
    assert "DataLoader: batches ready" in counted
    assert {row["process_id"] for row in recording.table("processes").to_pylist()} == {
        recording.rank_info(0)["writer"]["process_id"]
    }


def test_a_child_that_calls_profile_itself_records_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "nested.py").write_text(
        "import multiprocessing, sys, stallscope, torch\n"
        "def work(children):\n"
        "    with stallscope.profile('child', detail='always', children=children) as prof:\n"
        "        prof.step()\n"
        "if __name__ == '__main__':\n"
        "    with stallscope.profile('parent', detail='always'):\n"
        "        p = multiprocessing.get_context('spawn').Process(target=work, args=(sys.argv[1] == 'yes',))\n"
        "        p.start(); p.join(); sys.exit(p.exitcode)\n"
    )
    assert run_python("nested.py", "no", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "child").exists()
    assert run_python("nested.py", "yes", cwd=tmp_path / ".").returncode == 1  # the parent's folder is taken
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "nested.py").write_text((tmp_path / "nested.py").read_text())
    assert run_python("nested.py", "yes", cwd=tmp_path / "again").returncode == 0
    assert opened(tmp_path / "again" / "child").table("steps").num_rows == 1


def test_code_of_a_notebook_is_recorded(tmp_path: Path) -> None:
    """Cells have names like <ipython-input-1-...> and no file."""
    cells = ["import torch, stallscope\nmodel = torch.nn.Linear(4, 1)", "with stallscope.profile('run', detail='normal') as prof:\n    model(torch.ones(1, 4)).sum().backward()\n    prof.step()"]  # fmt: skip  # noqa: E501
    body = "exec(compile(cell, f'<ipython-input-{n}>', 'exec'), space)"
    source = f"space = {{}}\nfor n, cell in enumerate({cells!r}):\n    {body}"
    ran = run_python("-c", source, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    recording = opened(tmp_path / "run")
    assert recording.table("steps").num_rows == 1
    assert recording.rank_info(0)["status"] == "completed"
