"""One stall, link by link: which one is meant, and what the chain says."""

from __future__ import annotations

import pytest

from stallscope.analysis.stalls import stalls
from stallscope.analysis.why import why_at, why_largest, why_slice
from stallscope.profiler.recording.errors import QueryError
from tests.builders import TraceBuilder

US = 1000


def late_launch() -> tuple[TraceBuilder, dict[str, int]]:
    """Two kernels; between them the host loads a batch for 700 us, then launches 20 us late."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    _, first = trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 90 * US))
    batch = trace.slice(main, "enumerate(DataLoader)#x", "input", 100 * US, 700 * US)
    call, second = trace.launched(main, gpu, call=(820 * US, 5 * US), work=(830 * US, 100 * US))
    return trace, {"first": first, "batch": batch, "call": call, "second": second}


def test_the_chain_leads_from_the_device_to_what_the_host_did() -> None:
    trace, ids = late_launch()
    chain = why_largest(trace.recording())
    assert (chain.state, chain.cause, chain.root_cause, chain.dur) == ("stall", "input", "input", 730 * US)
    assert [link.role for link in chain.links[:3]] == ["device", "device", "host"]
    assert [link.slice_id for link in chain.links[:3]] == [ids["first"], ids["second"], ids["call"]]
    assert "730 us" in chain.links[0].text and "720 us after" in chain.links[1].text
    assert chain.links[3].slice_id == ids["batch"] and "705 us of it: input" in chain.links[3].text
    assert ids["second"] in chain.evidence and chain.kind == "input" and chain.advice


@pytest.mark.parametrize("which", ["batch", "second"])
def test_a_slice_stands_for_the_stall_that_it_ended_or_caused(which: str) -> None:
    trace, ids = late_launch()
    recording = trace.recording()
    assert why_slice(recording, ids[which]) == why_largest(recording)


def test_any_instant_of_the_stall_stands_for_it() -> None:
    trace, _ = late_launch()
    recording = trace.recording()
    whole = why_largest(recording)
    for row in stalls(recording).itertuples():
        if whole.ts <= row.ts < whole.ts + whole.dur:
            assert why_at(recording, row.ts) == why_at(recording, row.ts + row.dur - 1) == whole


def test_a_busy_instant_and_a_slice_without_a_stall_are_refused() -> None:
    trace, _ = late_launch()
    recording = trace.recording()
    with pytest.raises(QueryError, match="no device waited at that time") as refused:
        why_at(recording, 50 * US + why_largest(recording).origin_ns)
    assert "+90.0 us" in refused.value.hint
    with pytest.raises(QueryError, match="no slice 99999"):
        why_slice(recording, 99999)
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 90 * US))
    _, behind = trace.launched(main, gpu, call=(20 * US, 5 * US), work=(100 * US, 90 * US))
    with pytest.raises(QueryError, match="no stall ended"):
        why_slice(trace.recording(), behind)


def test_a_wait_before_is_told_as_the_root() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 990 * US))
    wait = trace.slice(main, "cudaStreamSynchronize", "synchronization", 100 * US, 910 * US)
    trace.slice(main, "aten::mm", "op", 1011 * US, 300 * US)
    trace.launched(main, gpu, call=(1320 * US, 5 * US), work=(1330 * US, 100 * US))
    chain = why_largest(trace.recording())
    assert (chain.cause, chain.root_cause) == ("dispatch", "synchronization")
    told = [link for link in chain.links if link.role == "root"]
    assert [link.slice_id for link in told] == [wait] and "because of synchronization" in told[0].text


def test_what_the_device_held_is_not_the_hosts_fault() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 90 * US))
    trace.launched(main, gpu, call=(20 * US, 5 * US), work=(108 * US, 90 * US))
    chain = why_largest(trace.recording())
    assert chain.cause == "kernel_gap" and any("the host was not late" in link.text for link in chain.links)
    assert chain.file is None


def test_a_recording_that_never_waited() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 90 * US))
    with pytest.raises(QueryError, match="no device ever waited"):
        why_largest(trace.recording())


def test_a_wait_that_returns_late_says_so() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 90 * US))
    trace.slice(main, "cudaStreamSynchronize", "synchronization", 20 * US, 580 * US)
    trace.launched(main, gpu, call=(620 * US, 5 * US), work=(630 * US, 100 * US))
    texts = [link.text for link in why_largest(trace.recording()).links]
    assert any("returned only 500 us after the device had finished" in text for text in texts)
