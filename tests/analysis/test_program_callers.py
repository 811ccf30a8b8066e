"""What the command line went through before it ran the program stands above nothing that is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.analysis.hierarchy import hierarchy
from stallscope.analysis.program_callers import caller_rows, program_frames, recorder_threads, runs_program
from stallscope.analysis.slice_facts import slice_facts
from stallscope.analysis.source_position import SourceLine
from stallscope.analysis.tile_index import TileIndex, tile_index
from stallscope.analysis.timeline import timeline
from stallscope.profiler.recording.reader import Recording
from tests.builders import TraceBuilder

RUNS = "site-packages/stallscope/profiler/session/program.py(91): run_program"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _recorded(path: Path, *segments: int) -> Recording:
    """A program that was recorded by the command line, in segments of 1000 that begin at these times."""
    trace = TraceBuilder()
    main, other = trace.thread(), trace.thread("other")
    for begin in segments:
        for depth, name in enumerate(
            ("bin/stallscope(6): <module>", "click/core.py(10): main", "record.py(9): record")
        ):
            trace.python(main, name, begin + depth, 1000 - 2 * depth)
        trace.python(main, RUNS, begin + 10, 800)
        trace.python(main, "train.py(3): <module>", begin + 20, 700)
        trace.python(main, "train.py(1): step", begin + 30, 100)
        trace.python(main, "record.py(20): _join_threads", begin + 850, 50)
        trace.python(other, "threading.py(1): run", begin, 1000)
    return trace.write(path)


def _lines(index: TileIndex, track: int) -> list[list[tuple[str, int, int]]]:
    first = index.tracks[track].first_row
    return [
        [
            (index.names[int(index.name[n])], int(index.start[n]), int(index.end[n]))
            for n in range(int(index.row_start[row]), int(index.row_start[row + 1]))
        ]
        for row in range(first, first + index.tracks[track].rows)
    ]


def test_the_program_is_on_the_first_line_of_its_thread(tmp_path: Path) -> None:
    index = tile_index(_recorded(tmp_path / "recorded", 0, 2000))
    assert _lines(index, 0) == [
        [
            ("train.py(3): <module>", 20, 720),
            ("record.py(20): _join_threads", 850, 900),
            ("train.py(3): <module>", 2020, 2720),
            ("record.py(20): _join_threads", 2850, 2900),
        ],
        [("train.py(1): step", 30, 130), ("train.py(1): step", 2030, 2130)],
    ]
    assert _lines(index, 1) == [[("threading.py(1): run", 0, 1000), ("threading.py(1): run", 2000, 3000)]]
    assert index.busy.tolist()[:4] == [0, 700, 750, 1450]


def test_the_recording_keeps_the_callers_and_their_time_counts_for_the_thread(tmp_path: Path) -> None:
    recorded = _recorded(tmp_path / "recorded", 0)
    assert recorded.table("slices").num_rows == 8
    t = timeline(recorded, 0)
    assert sorted(t.name_of(row) for row in caller_rows(t).nonzero()[0]) == [
        "bin/stallscope(6): <module>", "click/core.py(10): main", "record.py(9): record", RUNS,
    ]  # fmt: skip
    tree = hierarchy(recorded, 0)
    assert not runs_program(tree.names).any()
    thread = tree.names.index("main")
    at = tree.names.index("train.py(3): <module>")
    assert (tree.parent[thread], tree.parent[at], tree.total_ns[at]) == (-1, thread, 700)
    assert (tree.total_ns[thread], tree.self_ns[thread]) == (1000, 1000 - 700 - 50)


def test_a_stack_begins_at_the_program(tmp_path: Path) -> None:
    above = [("/opt/stallscope", 6, "<module>"), ("/opt/profiler/session/program.py", 91, "run_program")]
    own = [("/home/me/train.py", 3, "<module>"), ("/home/me/train.py", 1, "run_program")]
    lines = [SourceLine(*frame, origin="user") for frame in [*above, *own]]
    assert program_frames(lines) == tuple(lines[2:])
    assert program_frames(lines[2:]) == tuple(lines[2:])
    assert program_frames([]) == ()
    trace = TraceBuilder()
    for number, (file, line, function) in enumerate([*above, *own]):
        trace.row("frames", frame_id=number, file=file, line=line, function=function)
    trace.row("stacks", stack_id=1, frame_ids=[0, 1, 2, 3])
    op = trace.slice(trace.thread(), "aten::mm", "op", 5, 10, stack_id=1)
    facts = slice_facts(trace.write(tmp_path / "one"), 0, op, 5)
    assert facts is not None
    assert [line.file for line in facts.stack] == ["/home/me/train.py"] * 2


def test_threads_that_record_are_in_no_tree(tmp_path: Path) -> None:
    trace = TraceBuilder()
    main, named, nameless, mixed = (
        trace.thread(name) for name in ("main", "stallscope-session", "thread 0", "thread 1")
    )
    trace.python(main, "train.py(3): <module>", 0, 700)
    for track in (named, nameless, mixed):
        trace.python(track, "threading.py(10): _bootstrap", 0, 900)
        trace.python(track, "/opt/collectors/live/sampler.py(86): _run", 10, 800)
    trace.python(mixed, "train.py(9): work", 1000, 500)
    recorded = trace.write(tmp_path / "threads")
    t = timeline(recorded, 0)
    assert {t.tracks[one].name for one in recorder_threads(t)} == {"stallscope-session", "thread 0"}
    tree = hierarchy(recorded, 0)
    assert tree.whole_ns == 700 + 900 + 500
    assert {tree.names[n] for n in range(len(tree)) if tree.parent[n] < 0} == {"main", "thread 1"}
