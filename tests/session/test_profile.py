"""``stallscope.profile`` around a real training."""

from __future__ import annotations

import importlib
import os
import threading
import time
import warnings
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import stallscope
from stallscope.profiler.recording.errors import CaptureError, UsageError
from stallscope.profiler.session import running

from .workloads import STEPS, Training, all_losses, losses_without_recording, opened


def test_losses_are_the_same_bit_for_bit_and_everything_is_there(tmp_path: Path) -> None:
    training = Training()
    with stallscope.profile(tmp_path / "run", label="small", detail="normal") as prof:
        losses = []
        for _ in range(STEPS):
            losses.append(training.step())
            prof.step()
    assert losses == losses_without_recording()
    recording = opened(tmp_path / "run")
    assert recording.info["label"] == "small"
    info = recording.rank_info(0)
    assert info["status"] == "completed"
    assert {name: told["state"] for name, told in info["collectors"].items()} == dict.fromkeys(
        info["collectors"], "stopped"
    )
    steps = recording.table("steps").to_pylist()
    assert [step["step"] for step in steps] == list(range(STEPS))
    assert [step["micro_steps"] for step in steps] == [1] * STEPS
    assert steps[0]["phase"] == "preparation"
    assert steps[-1]["phase"] == "execution"
    for before, after in pairwise(steps):
        assert before["ts"] + before["dur"] <= after["ts"]
    names = recording.table("slices", columns=["name"])["name"].to_pylist()
    assert names.count("aten::addmm") == 2 * STEPS
    assert sum(name.startswith("Optimizer.step#AdamW") for name in names) == STEPS
    assert recording.table("memory").num_rows > 0
    assert recording.table("samples").num_rows > 0
    assert [Path(row["path"]).name for row in recording.table("sources").to_pylist()].count("test_profile.py") == 1


@pytest.mark.parametrize("detail", ["low", "normal"])
def test_the_source_of_calls_that_only_torch_saw_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detail: str
) -> None:
    written = "import torch\n\n\ndef twice(x):\n    y = x\n    return torch.special.i1(y)\n"
    name = f"short_helper_{detail}"
    (tmp_path / f"{name}.py").write_text(written)
    monkeypatch.syspath_prepend(tmp_path)
    helper = importlib.import_module(name)
    with stallscope.profile(tmp_path / "run", detail=detail, collectors="torch,sources") as prof:
        helper.twice(torch.ones(2))
        prof.step()
    kept = {Path(row["path"]): row["text"] for row in opened(tmp_path / "run").table("sources").to_pylist()}
    assert kept.get(tmp_path / f"{name}.py") == (written if detail == "normal" else None)
    package = Path(stallscope.__file__).parents[1]
    assert not [path for path in kept if path.is_relative_to(package / "profiler")]


def test_torchs_slices_and_ours_lie_on_one_track_of_the_thread(tmp_path: Path) -> None:
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="low") as prof:
        for _ in range(3):
            with prof.annotate("my part"):
                training.step()
            torch.save(training.model.state_dict(), tmp_path / "checkpoint.pt")
            prof.step()
    recording = opened(tmp_path / "run")
    tracks = recording.table("tracks").to_pylist()
    assert len({track["track_id"] for track in tracks}) == len(tracks)
    main = [track for track in tracks if track["thread_id"] == threading.get_native_id()]
    assert len(main) == 1
    slices = recording.table("slices").to_pylist()
    on_main = [row for row in slices if row["track_id"] == main[0]["track_id"]]
    assert {"aten::addmm", "torch.save", "my part"} <= {row["name"] for row in on_main}
    assert len({row["slice_id"] for row in slices}) == len(slices)
    # Both clocks are one: a save of ours contains no op of torch's partly, and lies in its step.
    steps = recording.table("steps").to_pylist()
    for row in on_main:
        if row["name"] == "torch.save":
            inside = [s for s in steps if s["ts"] <= row["ts"] and row["ts"] + row["dur"] <= s["ts"] + s["dur"]]
            assert len(inside) == 1
            assert row["category"] == "io"
            assert row["stack_id"] is not None
    parts = [row for row in on_main if row["name"] == "my part"]
    ops = [row for row in on_main if row["name"] == "aten::addmm"]
    assert len(parts) == 3
    assert len(ops) == 6
    for op in ops:
        assert sum(p["ts"] <= op["ts"] and op["ts"] + op["dur"] <= p["ts"] + p["dur"] for p in parts) == 1


def test_an_exception_passes_through_unchanged_and_becomes_the_status(tmp_path: Path) -> None:
    raised = ValueError("no luck")
    with pytest.raises(ValueError, match="no luck") as caught, stallscope.profile(tmp_path / "run", detail="low"):
        raise raised
    assert caught.value is raised
    info = opened(tmp_path / "run").rank_info(0)
    assert info["status"] == "failed"
    assert info["exception"] == {"type": "ValueError", "message": "no luck"}
    assert running.session() is None


def test_a_recording_inside_a_recording_is_refused(tmp_path: Path) -> None:
    with stallscope.profile(tmp_path / "run", detail="always"):
        with pytest.raises(CaptureError, match="already records"), stallscope.profile(tmp_path / "other"):
            pass
        assert not (tmp_path / "other").exists()
    assert opened(tmp_path / "run").rank_info(0)["status"] == "completed"


def test_another_runs_recording_is_never_overwritten_unless_asked(tmp_path: Path) -> None:
    for _ in range(2):
        with stallscope.profile(tmp_path / "run", detail="always", force=True):
            pass
    with pytest.raises(CaptureError, match="another run"), stallscope.profile(tmp_path / "run"):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(CaptureError, match=r"thesis\.tex"), stallscope.profile(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "x"


def test_as_a_decorator_each_call_is_an_attempt(tmp_path: Path) -> None:
    @stallscope.profile(tmp_path / "run", detail="always")
    def train(number: int) -> int:
        """Trains."""
        return number + 1

    assert train.__doc__ == "Trains."
    assert [train(1), train(5)] == [2, 6]
    assert opened(tmp_path / "run").attempts(0) == (0, 1)


def test_a_wrong_setting_fails_before_anything_is_written(tmp_path: Path) -> None:
    for wrong in ({"detail": "huge"}, {"collectors": "nobody"}, {"schedule": "1"}, {"max_bytes": "0"}, {"speed": 3}):
        with pytest.raises(UsageError), stallscope.profile(tmp_path / "run", **wrong):  # type: ignore[arg-type]
            pass
    assert not (tmp_path / "run").exists()
    assert running.session() is None


def test_a_schedule_records_its_steps_alone(tmp_path: Path) -> None:
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="low", schedule=stallscope.schedule(wait=2, warm_up=1, active=2, repeat=2)) as prof:  # fmt: skip  # noqa: E501
        for _ in range(14):
            training.step()
            prof.step()
    recording = opened(tmp_path / "run")
    steps = recording.table("steps").to_pylist()
    assert len(steps) == 14
    assert [step["step"] for step in steps if step["phase"] == "warm_up"] == [2, 7]
    segments = recording.table("segments").to_pylist()
    assert len(segments) == 2
    starts = [row["ts"] for row in recording.table("slices").to_pylist() if row["name"] == "aten::mse_loss" or row["name"] == "aten::addmm"]  # fmt: skip  # noqa: E501
    holds = {step["step"]: sum(step["ts"] <= ts < step["ts"] + step["dur"] for ts in starts) for step in steps}
    assert holds == {number: (2 if number in (3, 4, 8, 9) else 0) for number in range(14)}


def test_gradient_accumulation_shows_in_micro_steps(tmp_path: Path) -> None:
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="always"):
        for _ in range(4):
            for _ in range(3):
                (training.model(training.inputs) - training.targets).pow(2).mean().backward()
            training.optimizer.step()
            training.optimizer.zero_grad()
    steps = opened(tmp_path / "run").table("steps").to_pylist()
    assert len(steps) == 4
    assert [step["micro_steps"] for step in steps[2:]] == [3, 3]
    assert sum(step["micro_steps"] or 0 for step in steps) == 12


def test_several_optimizers_that_take_turns_make_one_step(tmp_path: Path) -> None:
    first, second = Training(), Training()
    with stallscope.profile(tmp_path / "run", detail="always"):
        for _ in range(6):
            first.step()
            second.step()
    steps = opened(tmp_path / "run").table("steps").to_pylist()
    # The first turn is seen as what it is when the second begins.
    assert len(steps) in (6, 7)
    assert [step["micro_steps"] for step in steps[2:]] == [2] * len(steps[2:])


def test_steps_by_a_named_range(tmp_path: Path) -> None:
    model = Training().model
    with stallscope.profile(tmp_path / "run", detail="always", step_by="request"):
        for _ in range(5):
            with torch.profiler.record_function("request"):
                model(torch.zeros(1, 16))
            with torch.profiler.record_function("other"):
                pass
    assert opened(tmp_path / "run").table("steps").num_rows == 5


def test_segments_rotate_and_their_pauses_lie_between_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallscope.profiler.session.session.TICK_S", 0.01)
    monkeypatch.setattr("stallscope.collectors.live.segment_size.SHORTEST_S", 0.05)
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="low", segment_events=1000) as prof:
        for _ in range(400):
            training.step()
            prof.step()
    recording = opened(tmp_path / "run")
    segments = recording.table("segments").to_pylist()
    assert len(segments) >= 2
    pauses = [row for row in recording.table("slices").to_pylist() if row["category"] == "overhead"]
    assert len(pauses) == len(segments)
    steps = recording.table("steps").to_pylist()
    for pause in pauses:
        end = pause["ts"] + pause["dur"]
        assert not any(step["ts"] < end and pause["ts"] < step["ts"] + step["dur"] for step in steps)
    told = [row for row in all_losses(recording) if row["kind"] == "paused"]
    assert [row["dur"] for row in told] == [row["dur"] for row in pauses]
    names = recording.table("slices", columns=["name"])["name"].to_pylist()
    assert names.count("aten::addmm") == 800


def test_without_a_converter_segments_are_converted_when_opened(tmp_path: Path) -> None:
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="low", convert=False) as prof:
        training.step()
        prof.step()
    attempt = tmp_path / "run" / "ranks" / "rank=00000" / "attempt=0"
    assert (attempt / "raw" / "segment-00000.json").exists()
    assert not (attempt / "converted").exists()
    names = opened(tmp_path / "run").table("slices", columns=["name"])["name"].to_pylist()
    assert names.count("aten::addmm") == 2


def test_max_bytes_ends_the_recording_and_not_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallscope.profiler.session.session._BEAT_EVERY", 1)
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="low", max_bytes=30_000, segment_events=1000) as prof:
        until = time.monotonic() + 20
        while prof.recording_phase != "done" and time.monotonic() < until:
            training.step()
            prof.step()
        for _ in range(50):
            training.step()
            prof.step()
    recording = opened(tmp_path / "run")
    assert "max_bytes_reached" in {row["kind"] for row in all_losses(recording)}
    last = max(row["ts"] + row["dur"] for row in recording.table("segments").to_pylist())
    assert sum(step["ts"] > last for step in recording.table("steps").to_pylist()) >= 49


def test_a_planted_token_occurs_in_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "hf_" + "Q7w" * 9
    plain = "correct-horse-battery"
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("SOME_PASSWORD", plain)
    monkeypatch.setattr("sys.argv", ["train.py", "--hf-token", token, f"--api-key={plain}x", "--lr", "1"])
    training = Training()
    with pytest.raises(RuntimeError), stallscope.profile(tmp_path / "run", detail="deep", keep_raw=True) as prof:
        training.step()
        prof.step()
        raise RuntimeError(f"401 for {token} and {plain}")
    stored = b"".join(path.read_bytes() for path in sorted((tmp_path / "run").rglob("*")) if path.is_file())
    recording = opened(tmp_path / "run")
    texts = "".join(str(recording.table(name).to_pylist()) for name in ("losses", "frames", "processes", "sources"))
    for secret in (token, plain):
        assert secret.encode() not in stored
        assert secret not in texts
    assert recording.identity["argv"] == ["train.py", "--hf-token", "***", "--api-key=***", "--lr", "1"]


def test_nothing_of_ours_is_left_behind_in_torch_or_python(tmp_path: Path) -> None:
    import builtins
    import gc

    def patched() -> list[object]:
        loader = torch.utils.data.dataloader._BaseDataLoaderIter
        return [
            builtins.open, torch.save, torch.load, os.fsync, torch.autograd.backward, torch.Tensor.__repr__,
            loader.__next__, torch.autograd.profiler.profile.__exit__, torch.profiler.profile.stop, len(gc.callbacks),
            dict(os.environ), threading.active_count(),
        ]  # fmt: skip

    with stallscope.profile(tmp_path / "warm", detail="low"):
        Training().step()
    before = patched()
    with stallscope.profile(tmp_path / "run", detail="low"):
        assert patched() != before
        Training().step()
    assert patched() == before


def test_a_warning_of_ours_is_no_exception_where_warnings_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from stallscope.collectors.live.steps import StepsCollector

    def broken(self: object, step: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(StepsCollector, "on_step", broken)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with stallscope.profile(tmp_path / "run", detail="always") as prof:
            prof.step()
    assert "gone" in capsys.readouterr().err
    told = [row for row in all_losses(opened(tmp_path / "run")) if row["kind"] == "collector_error"]
    assert [(row["collector"], row["severity"]) for row in told] == [("steps", "data_loss")]
