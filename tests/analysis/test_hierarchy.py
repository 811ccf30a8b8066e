"""Trees of time beside a slow twin that adds up path by path."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from stallscope.analysis.hierarchy import MEASURES, NO_MODULE, NO_SLICE, WAYS, Hierarchy, hierarchy
from stallscope.analysis.slice_facts import all_stalls, of_the_program
from stallscope.analysis.timeline import timeline
from tests.analysis.random_traces import traces
from tests.builders import TraceBuilder


def paths(tree: Hierarchy) -> dict[tuple[str, ...], int]:
    """The total of every path, from the top."""
    found: list[tuple[str, ...]] = []
    for name, above in zip(tree.names, tree.parent.tolist(), strict=True):
        found.append(((*found[above],) if above >= 0 else ()) + (name,))
    assert len(set(found)) == len(found)
    return dict(zip(found, tree.total_ns.tolist(), strict=True))


def _twin(recording: Any, measure: str) -> Counter[tuple[str, ...]]:
    """Time by call path, slice by slice."""
    t = timeline(recording, 0)

    def path(row: int) -> tuple[str, ...]:
        above: list[str] = []
        while row >= 0:
            above.insert(0, "ProfilerStep" if t.name_of(row).startswith("ProfilerStep#") else t.name_of(row))
            top, row = row, int(t.parent[row])
        return (t.tracks[int(t.track[top])].name, *above)

    spent: Counter[tuple[str, ...]] = Counter()
    if measure == "host":
        for row in np.flatnonzero(np.isin(t.track, t.threads) & ~t.is_category("overhead")).tolist():
            children = np.flatnonzero(t.parent == row)
            spent[path(row)] += int(t.dur[row] - t.dur[children].sum())
    elif measure == "device":
        for row in np.flatnonzero(t.state >= 0).tolist():
            spent[path(int(t.launch[row])) if t.launch[row] >= 0 else (NO_SLICE,)] += int(t.dur[row])
    else:
        for one in of_the_program(all_stalls(recording, 0)).to_dict("records"):
            ids = [one[name] for name in ("root_slice_id", "host_slice_id") if one[name] == one[name]]
            known = [value for value in ids if value is not None and str(value) != "<NA>"]
            row = int(t.rows_of([known[0]])[0]) if known else -1
            spent[path(row) if row >= 0 else (NO_SLICE,)] += one["dur"]
    return spent


@pytest.mark.parametrize("measure", MEASURES)
@settings(max_examples=25, deadline=None)
@given(trace=traces())
def test_calls_are_what_a_twin_adds_up(measure: str, trace: TraceBuilder) -> None:
    recording: Any = trace.recording()
    tree = hierarchy(recording, 0, measure=measure)  # type: ignore[arg-type]
    expected: Counter[tuple[str, ...]] = Counter()
    for path, spent in _twin(recording, measure).items():
        for length in range(1, len(path) + 1):
            expected[path[:length]] += spent
    assert paths(tree) == {path: spent for path, spent in expected.items() if spent}


@settings(max_examples=15, deadline=None)
@given(trace=traces())
def test_every_arrangement_has_the_same_whole(trace: TraceBuilder) -> None:
    recording: Any = trace.recording()
    for measure in MEASURES:
        wholes = {hierarchy(recording, 0, by=by, measure=measure).whole_ns for by in WAYS}
        assert len(wholes) == 1
    tree = hierarchy(recording, 0)
    for most in range(len(tree) + 1):
        fewer = tree.largest(most)
        assert len(fewer) == min(most, len(tree))
        assert paths(fewer).items() <= paths(tree).items()


def _model() -> tuple[TraceBuilder, int]:
    """A forward op inside two modules and its backward pass on another thread, each with a kernel."""
    trace = TraceBuilder()
    main, backward, gpu = trace.thread("main"), trace.thread("autograd"), trace.stream(7)
    for module, above, name in ((1, None, "Model_0"), (2, 1, "Linear_0")):
        trace.row("modules", module_id=module, parent_id=above, path=name, class_name=name[:-2])
    trace.row("frames", frame_id=1, file="train.py", line=10, function="main")
    trace.row("frames", frame_id=2, file="model.py", line=20, function="forward")
    trace.row("stacks", stack_id=5, frame_ids=[1, 2])
    trace.slice(main, "nn.Module: Model_0", "module", 0, 100, module_id=1)
    trace.slice(main, "nn.Module: Linear_0", "module", 10, 80, module_id=2)
    trace.slice(main, "aten::linear", "op", 20, 60, sequence_number=3, stack_id=5)
    trace.launched(main, gpu, call=(30, 5), work=(40, 70), name="forward_kernel")
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    trace.slice(backward, node, "op", 200, 50, sequence_number=3)
    _, longest = trace.launched(backward, gpu, call=(210, 5), work=(220, 90), name="backward_kernel")
    return trace, longest


def test_a_backward_pass_counts_for_its_forward_module_and_stack() -> None:
    trace, longest = _model()
    recording: Any = trace.recording()
    by_module = hierarchy(recording, 0, by="module", measure="device")
    assert paths(by_module) == {("Model_0",): 160, ("Model_0", "Linear_0"): 160}
    assert by_module.longest[by_module.names.index("Linear_0")] == longest
    by_stack = paths(hierarchy(recording, 0, by="stack", measure="device"))
    top = "train.py(10): main"
    leaf = (top, "model.py(20): forward", "aten::linear")
    assert by_stack == {leaf[:1]: 160, leaf[:2]: 160, leaf: 160}
    assert paths(hierarchy(recording, 0, by="module"))[("Model_0", "Linear_0")] == 80 + 50
    assert (NO_MODULE,) not in paths(by_module)


def test_a_step_leaves_only_what_belongs_to_it() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread("main"), trace.stream(7)
    for number in range(3):
        begin = 1000 * number
        trace.step(number, begin, 1000)
        trace.slice(main, f"ProfilerStep#{number}", "annotation", begin, 900)
        trace.launched(main, gpu, call=(begin + 100, 10), work=(begin + 200, 100 + number), name="gemm")
    recording: Any = trace.recording()
    step = ("main", "ProfilerStep")
    assert paths(hierarchy(recording, 0))[step] == 2700
    assert paths(hierarchy(recording, 0, step=1))[step] == 900
    assert paths(hierarchy(recording, 0, measure="device", step=2))[step] == 102


def test_a_pause_of_the_recorder_is_no_time_of_the_program() -> None:
    trace = TraceBuilder()
    main = trace.thread("main")
    trace.slice(main, "aten::mm", "op", 0, 70)
    trace.slice(main, "torch.profiler: end and export of a segment", "overhead", 100, 5000)
    recording: Any = trace.recording()
    assert paths(hierarchy(recording, 0)) == {("main",): 70, ("main", "aten::mm"): 70}
