"""Reasons add up: each row counts for its root, and once more for a second sufficient cause."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from stallscope.analysis.device_activity import rank_activity
from stallscope.analysis.findings import findings
from stallscope.analysis.spells import ALL_REASONS, ONLY_TOGETHER, REASONS
from stallscope.analysis.stall_claims import KINDS, OVERLAPPABLE, blamed, claims, gives_back, with_gaps_between
from stallscope.analysis.stall_reasons import stall_reasons
from stallscope.analysis.stalls import stalls, stalls_of_device
from tests.analysis.random_traces import traces
from tests.builders import TraceBuilder

US = 1000


@settings(max_examples=30, deadline=None)
@given(traces())
def test_reasons_tile_all_stalls_and_add_second_causes(trace: TraceBuilder) -> None:
    recording = trace.recording()
    frame = stalls(recording)
    found = stall_reasons(recording)
    tied = frame["reason"].isin(set(ALL_REASONS) - set(REASONS))
    together = frame["reason"].isin([REASONS[reason] for reason in ONLY_TOGETHER])
    second = frame["co_cause"].notna()
    copies = {one.kind for one in found} & {*OVERLAPPABLE}  # of which more may be lost than can be hidden
    promised = sum(one.dur for one in found)
    lost = frame["dur"][~together].sum() + frame["dur"][second & ~tied].sum()
    assert promised <= lost and (copies or promised == lost)
    assert sum(one.second_ns for one in found if one.dur) == frame["dur"][second & ~tied].sum()
    assert sum(one.together_ns for one in found) == frame["dur"][together].sum() + frame["dur"][tied].sum()
    assert not together[tied].any() and second[tied].all()
    assert all(one.kind in KINDS for one in found)
    assert all(one.longest_ns <= (one.dur or one.together_ns) for one in found if one.kind not in OVERLAPPABLE)
    order = [(one.kind == "overhead", -one.dur) for one in found]
    assert order == sorted(order)


def test_the_profilers_own_pauses_come_last() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 100 * US))
    trace.slice(main, "torch.profiler: end and export of a segment", "overhead", 110 * US, 5000 * US)
    trace.launched(main, gpu, call=(5110 * US, 5 * US), work=(5120 * US, 100 * US))
    trace.slice(main, "enumerate(DataLoader)#x", "input", 5220 * US, 1000 * US)
    trace.launched(main, gpu, call=(6220 * US, 5 * US), work=(6230 * US, 100 * US))
    first, *_, last = stall_reasons(trace.recording())
    assert (first.kind, last.kind) == ("input", "overhead")
    assert last.dur > first.dur


def loader_after_a_wait() -> TraceBuilder:
    """The host waits for a kernel of 2 ms, and then loads a batch for 1 ms before it launches the next."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 2000 * US))
    trace.slice(main, "cudaStreamSynchronize", "synchronization", 10 * US, 2000 * US)
    trace.slice(main, "enumerate(DataLoader)#x", "input", 2010 * US, 1000 * US)
    trace.launched(main, gpu, call=(3010 * US, 5 * US), work=(3020 * US, 100 * US))
    return trace


def test_a_delay_after_a_wait_has_two_sufficient_causes() -> None:
    recording = loader_after_a_wait().recording()
    by_kind = {one.kind: one for one in stall_reasons(recording)}
    assert set(by_kind) == {"input", "synchronization"}
    loader, wait = by_kind["input"], by_kind["synchronization"]
    assert loader.dur >= 1000 * US and loader.second_ns == 0
    assert loader.also is not None and loader.also.name == "synchronization"
    assert wait.second_ns == loader.also.dur and wait.also is not None and wait.also.name == "input"
    device = rank_activity(recording, 0).devices[0]
    rows, second = claims(stalls_of_device(recording, 0, device))
    assert int(rows.dur[second].sum()) == wait.second_ns


def test_a_line_is_blamed_for_slow_launches_only_where_it_has_most_of_them() -> None:
    kind = np.array([KINDS.index("launch_bound")] * 4 + [KINDS.index("input")], dtype=np.int64)
    line, dur = np.array([1, 1, 2, 3, 4]), np.array([30, 25, 25, 20, 1])
    assert blamed(kind, line, dur).tolist() == [1, 1, -1, -1, 4]
    assert blamed(kind, line, np.array([20, 20, 40, 20, 1])).tolist() == [-1, -1, -1, -1, 4]


@pytest.mark.parametrize(("copied", "promised"), [(400, 400), (500, 500), (700, 300)])
def test_a_copy_hides_only_behind_the_rest(copied: int, promised: int) -> None:
    """One millisecond, of which a copy is so much and kernels the rest."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, copied * US), name="Memcpy HtoD", category="memcpy")
    trace.launched(main, gpu, call=(10 * US, 5 * US), work=((10 + copied) * US, (1000 - copied) * US))
    recording = trace.recording()
    assert [(one.kind, one.dur) for one in stall_reasons(recording)] == [("copy", promised * US)]
    [finding] = findings(recording).findings
    assert (finding.kind, finding.gives_back_ns) == ("copy", promised * US)
    assert ("would fit beside the rest" in finding.evidence) == (promised < copied)
    device = rank_activity(recording, 0).devices[0]
    assert gives_back(device, "pageable_copy", 700, 1000) == gives_back(device, "input", 700, 1000) == 700


def test_gaps_between_operations_of_a_line_that_launches_too_slowly_count_there() -> None:
    bound, gap, held = (KINDS.index(name) for name in ("launch_bound", "kernel_gap", "held"))
    kind = np.array([bound, bound, gap, gap, gap, held])
    line, dur = np.array([1, 2, 1, 2, -1, 1]), np.array([30, 10, 5, 5, 5, 5])
    assert with_gaps_between(kind, line, dur).tolist() == [bound, bound, bound, gap, gap, held]
    # Where no line has half of the launches, none is to blame.
    shared = np.array([bound, bound, bound, gap])
    assert with_gaps_between(shared, np.array([1, 2, 3, 1]), np.array([10, 10, 10, 5])).tolist() == shared.tolist()


@pytest.mark.parametrize(
    ("name", "stream", "kind"),
    [
        ("Memcpy HtoD (Pinned -> Device)", 7, "copy"),
        ("Memcpy HtoD (Pinned -> Device)", 9, "awaited_copy"),
        ("Memcpy HtoD (Pageable -> Device)", 9, "pageable_copy"),
        ("Memcpy DtoD (Device -> Device)", 7, "device_copy"),
        ("Memset (Device)", 7, "memset"),
    ],
)
def test_copies_by_what_can_be_done_about_them(name: str, stream: int, kind: str) -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    aside = gpu if stream == 7 else trace.stream(stream)
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 100 * US))
    trace.launched(main, aside, call=(20 * US, 5 * US), work=(110 * US, 500 * US), name=name, category="memcpy")
    trace.launched(main, gpu, call=(30 * US, 5 * US), work=(610 * US, 400 * US))
    assert [(one.kind, one.dur) for one in stall_reasons(trace.recording())] == [(kind, 500 * US)]
