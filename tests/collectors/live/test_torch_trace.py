"""When torch's collector has to be called at the end of a step, without torch's profiler."""

from __future__ import annotations

from pathlib import Path

from stallscope.collectors.live.segment_size import BYTES_PER_EVENT, SegmentSize
from stallscope.collectors.live.torch_trace import TorchCollector
from stallscope.collectors.live.windows import LEAST_HISTORY, WindowTrigger
from stallscope.profiler.recording.collector import StepEnd

from .context import TestContext


def steps(*durations: int) -> list[StepEnd]:
    return [StepEnd(number, 0, dur, "active", "active") for number, dur in enumerate(durations)]


def recording(folder: Path) -> TorchCollector:
    collector = TorchCollector()
    collector._context = TestContext(folder)
    collector._profiler = object()
    collector._size = SegmentSize({"segment_events": 10, "segment_bytes": 1 << 40}, "low")
    collector._size.begins()
    collector._size.step_ends()
    collector._size.was(4 * int(BYTES_PER_EVENT["low"]))
    collector._size.begins()
    return collector


def test_steps_told_later_that_fill_a_segment_ask_for_the_next_end(tmp_path: Path) -> None:
    collector = recording(tmp_path)
    collector.on_past_steps(steps(1, 1))
    assert not collector.wants_next_step()  # 8 events of 10
    collector.on_past_steps(steps(1))
    assert collector.wants_next_step()


def test_a_slow_step_told_later_asks_for_the_next_end_to_begin_a_window(tmp_path: Path) -> None:
    collector = recording(tmp_path)
    collector._window = WindowTrigger(2.0, 1e9)
    collector.on_past_steps(steps(*[100] * LEAST_HISTORY))
    assert not collector.wants_next_step()
    collector.on_past_steps(steps(199, 200, 100))
    assert collector.wants_next_step()


def test_without_a_profiler_where_one_is_wanted_the_next_end_is_asked_for(tmp_path: Path) -> None:
    collector = recording(tmp_path)
    collector._profiler = None
    assert collector.wants_next_step()
    collector._context.phase = "done"
    assert not collector.wants_next_step()
