"""Random small traces, sane and insane, for properties that must hold on all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.builders import TraceBuilder

US = 1000
SPAN = 2_000 * US

_INSTANT = st.integers(0, SPAN // 500).map(lambda n: n * 500)
_LENGTH = st.sampled_from([0, 500, 1 * US, 7 * US, 60 * US, 450 * US])
_HOST = st.tuples(
    st.integers(0, 1),
    st.sampled_from(
        [
            ("aten::mm", "op"),
            ("aten::item", "op"),
            ("aten::_to_cpu", "fallback"),
            ("enumerate(DataLoader)#x", "input"),
            ("cudaStreamSynchronize", "synchronization"),
            ("cudaMalloc", "allocation"),
            ("train.py(3): loop", "python"),
            ("torch/serialization.py(9): save", "python"),
            ("Python GC", "gc"),
            ("Activity Buffer Request", "overhead"),
            ("ProfilerStep#1", "annotation"),
            ("record_param_comms", "collective"),
        ]
    ),
    _INSTANT,
    _LENGTH,
)
_WORK = st.tuples(
    st.integers(0, 1),
    st.integers(0, 2),
    st.sampled_from(["kernel", "memcpy", "memset", "collective"]),
    st.one_of(st.none(), _INSTANT),
    _LENGTH,
    _INSTANT,
    _LENGTH,
)
_STEPS = st.lists(st.tuples(_INSTANT, _LENGTH), max_size=4)


@st.composite
def traces(draw: st.DrawFn, *, devices: int = 2) -> TraceBuilder:
    """A rank with two threads and up to ``devices`` devices; kernels may run before their launch, or have none."""
    trace = TraceBuilder()
    threads = [trace.thread("main"), trace.thread("autograd")]
    streams = [trace.stream(7), trace.stream(8), trace.stream(7, device_index=devices - 1)]
    for thread, (name, category), ts, dur in draw(st.lists(_HOST, max_size=25)):
        trace.slice(threads[thread], name, category, ts, dur)
    for thread, stream, category, call, call_dur, ts, dur in draw(st.lists(_WORK, max_size=25)):
        if call is None:
            trace.slice(streams[stream], "work", category, ts, dur)
        else:
            trace.launched(
                threads[thread], streams[stream], call=(call, call_dur), work=(ts, dur), name="work", category=category
            )
    for number, (ts, dur) in enumerate(draw(_STEPS)):
        trace.step(number, ts, dur)
    return trace
