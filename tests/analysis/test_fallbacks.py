from __future__ import annotations

from stallscope.analysis.fallbacks import fallbacks
from stallscope.analysis.ops import ops
from tests.builders import TraceBuilder


def program() -> tuple[TraceBuilder, int, int]:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(0, device_type="sim")
    trace.python(main, "train.py(7): loss", 0, 10_000)
    return trace, main, gpu


def fall_back(trace: TraceBuilder, main: int, gpu: int, at: int, name: str, *, size: int | None = 64) -> None:
    """An op of 500 ns that copies to the host, runs there, and copies back."""
    trace.slice(main, name, "op", at, 500)
    trace.slice(main, "aten::_to_cpu", "op", at + 10, 100)
    trace.slice(main, "aten::to", "op", at + 20, 80)
    for call, copy in ((at + 30, "Memcpy DtoH"), (at + 400, "Memcpy HtoD")):
        _, copied = trace.launched(main, gpu, call=(call, 10), work=(call + 10, 20), name=copy, category="memcpy")
        trace.rows["slices"][-1]["bytes"] = size
        assert trace.rows["slices"][-1]["slice_id"] == copied


def test_an_op_that_falls_back_with_its_time_bytes_and_line() -> None:
    trace, main, gpu = program()
    fall_back(trace, main, gpu, 100, "aten::tril")
    fall_back(trace, main, gpu, 1_000, "aten::tril")
    (row,) = fallbacks(trace.recording()).to_dict("records")
    assert (row["op"], row["root_op"], row["count"], row["host_ns"]) == ("aten::tril", "aten::tril", 2, 1_000)
    assert row["host_self_ns"] == 2 * (500 - 100 - 10) and row["host_max_ns"] == 500
    assert (row["copies"], row["to_host_bytes"], row["to_device_bytes"]) == (4, 128, 128)
    assert (row["file"], row["line"], row["function"]) == ("train.py", 7, "loss")


def test_a_composite_op_names_the_inner_op_and_its_root() -> None:
    trace, main, gpu = program()
    trace.slice(main, "aten::layer_norm", "op", 50, 700)
    trace.slice(main, "aten::native_layer_norm", "op", 60, 600)
    fall_back(trace, main, gpu, 100, "aten::native_batch_norm", size=None)
    frame = fallbacks(trace.recording())
    assert frame[["op", "root_op"]].to_numpy().tolist() == [["aten::native_batch_norm", "aten::layer_norm"]]
    assert frame["to_host_bytes"].isna().all() and frame["copies"].tolist() == [2]


def test_item_cpu_and_ops_with_a_kernel_of_their_own_are_not_fallbacks() -> None:
    trace, main, gpu = program()
    trace.slice(main, "aten::item", "op", 100, 100)
    trace.slice(main, "aten::_local_scalar_dense", "op", 110, 80)
    trace.launched(main, gpu, call=(120, 10), work=(130, 20), name="Memcpy DtoH", category="memcpy")
    trace.slice(main, "aten::to", "op", 300, 100)
    trace.launched(main, gpu, call=(320, 10), work=(330, 20), name="Memcpy DtoH", category="memcpy")
    trace.slice(main, "aten::mm", "op", 500, 200)
    trace.slice(main, "aten::_to_cpu", "op", 510, 50)
    trace.launched(main, gpu, call=(600, 10), work=(620, 20))
    assert len(fallbacks(trace.recording())) == 0


def test_a_fallback_inside_a_fallback_counts_once_in_the_time() -> None:
    trace, main, gpu = program()
    trace.slice(main, "aten::tril", "op", 50, 900)
    trace.slice(main, "aten::_to_cpu", "op", 60, 10)
    fall_back(trace, main, gpu, 100, "aten::tril")
    (row,) = fallbacks(trace.recording()).to_dict("records")
    assert (row["count"], row["host_ns"]) == (2, 900)


def test_slices_that_a_collector_marked() -> None:
    trace, main, _ = program()
    trace.slice(main, "aten::sort", "fallback", 100, 200)
    frame = fallbacks(trace.recording())
    assert frame["op"].tolist() == ["aten::sort"] and frame["host_ns"].tolist() == [200]


def test_the_table_of_ops_shows_them() -> None:
    trace, main, gpu = program()
    fall_back(trace, main, gpu, 100, "aten::tril")
    frame = ops(trace.recording()).set_index("op")
    assert frame.loc["aten::tril", "fallback_count"] == 1 and frame["fallback"].sum() == 1


def test_a_step_or_nothing() -> None:
    trace, main, gpu = program()
    fall_back(trace, main, gpu, 100, "aten::tril")
    trace.step(1, 0, 50)
    trace.step(2, 50, 10_000)
    recording = trace.recording()
    assert fallbacks(recording, step=1).empty and len(fallbacks(recording, step=2)) == 1
    assert fallbacks(recording).attrs["selection"] == "the whole recording"
    assert fallbacks(TraceBuilder().recording()).empty
