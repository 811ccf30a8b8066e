"""Stall rows: exact on any timeline, and the expected rows for one hand-made timeline per cause."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from stallscope.analysis import intervals as iv
from stallscope.analysis.device_activity import rank_activity
from stallscope.analysis.stall_groups import stall_groups
from stallscope.analysis.stall_rows import stall_rows
from stallscope.analysis.stalls import stalls
from stallscope.analysis.step_breakdown import step_breakdown
from stallscope.profiler.recording.errors import UsageError
from stallscope.profiler.recording.reader import open_recording
from tests.analysis.random_traces import traces as random_traces
from tests.builders import TraceBuilder

US = 1000


def assert_exact(recording: Any, rank: int = 0) -> None:
    """Rows are in order, do not overlap, and cover exactly the idle time and the exposed copies of every window."""
    breakdown = step_breakdown(recording, ranks=(rank,))
    for device in rank_activity(recording, rank).devices:
        rows = stall_rows(recording, rank, device)
        assert (rows.dur > 0).all() and (rows.ts[1:] >= rows.end[:-1]).all()
        extent = rank_activity(recording, rank).host.extent
        spans = np.stack([rows.ts, rows.end], axis=1)
        expected = iv.union(np.concatenate([iv.gaps(device.busy, *extent), device.exposed_movement]))
        assert iv.union(spans).tolist() == expected.tolist()
        mine = breakdown[(breakdown["device_type"] == device.device_type)]
        index = (
            mine["device_index"].isna() if device.device_index is None else mine["device_index"] == device.device_index
        )
        for window in mine[index.fillna(False)].itertuples():
            step = None if pd.isna(window.step) else int(window.step)
            found = stalls(recording, ranks=(rank,), step=step)
            found = found[
                found["device_index"].isna()
                if device.device_index is None
                else found["device_index"] == device.device_index
            ]
            assert found["dur"][found["state"] == "stall"].sum() == window.stall_ns
            assert found["dur"][found["state"] == "data_movement"].sum() == window.data_movement_ns


@settings(max_examples=60, deadline=None)
@given(random_traces())
def test_rows_add_up_to_the_idle_time_on_any_timeline(trace: TraceBuilder) -> None:
    recording = trace.recording()
    assert_exact(recording)
    for by in ("cause", "root_cause", "line"):
        groups = stall_groups(recording, by=by)
        assert groups["dur"].sum() == stalls(recording)["dur"].sum()


class Scene:
    """A training loop on one thread and a device that runs 100 us kernels; times in us."""

    def __init__(self) -> None:
        self.trace = TraceBuilder()
        self.main, self.gpu = self.trace.thread("main"), self.trace.stream(7)
        self.host("ProfilerStep#1", "annotation", 0, 10_000)

    def host(self, name: str, category: str, ts: int, dur: int) -> int:
        return self.trace.slice(self.main, name, category, ts * US, dur * US)

    def kernel(self, call: int, start: int, dur: int = 100, *, call_dur: int = 5, **more: Any) -> tuple[int, int]:
        stream = more.pop("stream", self.gpu)
        thread = more.pop("thread", self.main)
        return self.trace.launched(thread, stream, call=(call * US, call_dur * US), work=(start * US, dur * US), **more)

    def rows(self, **choice: Any) -> pd.DataFrame:
        recording = self.trace.recording()
        assert_exact(recording)
        return stalls(recording, **choice)

    def told(self) -> list[tuple[str, str, int, int]]:
        frame = self.rows()
        causes = frame[["cause", "root_cause"]].to_numpy().tolist()
        return [
            (*pair, int(a) // US, int(b) // US) for pair, a, b in zip(causes, frame["ts"], frame["dur"], strict=True)
        ]


@pytest.mark.parametrize(
    ("name", "category", "cause"),
    [
        ("enumerate(DataLoader)#x", "input", "input"),
        ("torch/utils/data/dataloader.py(630): __next__", "python", "input"),
        ("cudaMalloc", "allocation", "allocation"),
        ("aten::reshape", "op", "dispatch"),
        ("Python GC", "gc", "gc"),
        ("torch/serialization.py(9): save", "python", "io"),
        ("torch/_dynamo/convert_frame.py(1): _compile", "python", "compile"),
        ("<built-in method acquire of _thread.lock object at 0x7f>", "python", "lock"),
        ("Activity Buffer Request", "overhead", "overhead"),
        ("train.py(3): augment", "python", "python"),
    ],
)
def test_what_the_host_did_before_a_late_launch(name: str, category: str, cause: str) -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.host("aten::mm", "op", 90, 20)
    scene.host(name, category, 110, 880)
    scene.kernel(990, 1000)
    # Until 110 the op before it, then the cause, then the call; the latency goes to the longest: the cause.
    assert scene.told() == [(cause, cause, 110, 880), ("launch", "launch", 990, 5), (cause, cause, 995, 5)]


def test_rows_name_slices_line_and_what_ended_them() -> None:
    scene = Scene()
    scene.trace.python(scene.main, "train.py(7): epoch", 0, 5000 * US)
    scene.kernel(0, 10)
    load = scene.host("enumerate(DataLoader)#x", "input", 105, 895)
    call, kernel = scene.kernel(1000, 1010)
    row = scene.rows().iloc[0].to_dict()
    assert (row["cause"], row["ts"], row["dur"], row["state"]) == ("input", 110 * US, 890 * US, "stall")
    assert (row["host_slice_id"], row["root_slice_id"], row["ended_by"]) == (load, load, kernel)
    assert row["evidence"] == [load, call, kernel]
    assert (row["file"], row["line"], row["function"], row["line_source"]) == ("train.py", 7, "epoch", "function")
    assert (row["confidence"], row["reason"], row["device_type"], row["device_index"]) == ("high", "", "cuda", 0)
    assert pd.isna(row["step"]) and pd.isna(row["peer_rank"])


def test_a_cpu_fallback_owns_its_kernel_and_its_copies() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.host("aten::cumsum", "op", 60, 940)
    scene.host("aten::_to_cpu", "fallback", 61, 89)
    copy = {"name": "Memcpy DtoH", "category": "memcpy", "call_name": "cudaMemcpyAsync"}
    scene.kernel(70, 110, 30, call_dur=75, **copy)
    scene.kernel(980, 990, 10, **(copy | {"name": "Memcpy HtoD"}))
    scene.kernel(1010, 1020)
    told = scene.told()
    assert told[:3] == [
        ("cpu_fallback", "cpu_fallback", 110, 30),
        ("cpu_fallback", "cpu_fallback", 140, 850),
        ("cpu_fallback", "cpu_fallback", 990, 10),
    ]
    assert scene.rows()["state"].tolist()[:3] == ["data_movement", "stall", "data_movement"]
    # What the host did before the device ran dry was hidden, and the short gap after it is paid from that.
    assert {root for _, root, _, _ in told} == {"cpu_fallback"}


def test_queued_work_is_held_by_the_device() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.kernel(20, 115)
    scene.kernel(30, 800)
    frame = scene.rows()
    assert frame["cause"].tolist() == ["kernel_gap", "kernel_gap"]
    assert frame["confidence"].tolist() == ["high", "low"]
    assert "queued" in frame["reason"][1]


def test_an_explicit_wait_for_another_stream_is_a_dependency() -> None:
    scene = Scene()
    other = scene.trace.stream(8)
    asked, awaited = scene.kernel(0, 10, 300, stream=other)
    scene.kernel(20, 30)
    _, waiting = scene.kernel(30, 350)
    scene.trace.flow(awaited, waiting, "stream_wait")
    frame = scene.rows()
    # The call that asked for what was awaited is behind it.
    told = frame[["cause", "ended_by", "root_slice_id"]].to_numpy().tolist()
    assert told == [["dependency", waiting, asked]]


def test_a_wait_recorded_on_the_stream_stands_for_the_work_behind_it() -> None:
    scene = Scene()
    other = scene.trace.stream(8)
    _, awaited = scene.kernel(0, 10, 300, stream=other)
    scene.kernel(20, 30)
    wait = scene.trace.slice(scene.gpu, "Stream Wait Event", "synchronization", 140 * US, 175 * US)
    scene.kernel(30, 350)
    scene.trace.flow(awaited, wait, "stream_wait")
    assert scene.rows()["cause"].tolist() == ["dependency"]


def test_an_operation_behind_its_own_predecessor_did_not_wait_for_the_other_stream() -> None:
    scene = Scene()
    other = scene.trace.stream(8)
    _, early = scene.kernel(0, 10, 20, stream=other)
    scene.kernel(20, 30)
    _, waiting = scene.kernel(30, 140)
    scene.trace.flow(early, waiting, "stream_wait")
    assert scene.rows()["cause"].tolist() == ["kernel_gap"]


def test_the_kernels_of_one_graph_are_held_behind_each_other() -> None:
    scene = Scene()
    call, _ = scene.kernel(0, 10, call_name="cudaGraphLaunch")
    for start in (112, 215):
        scene.trace.flow(call, scene.trace.slice(scene.gpu, "node", "kernel", start * US, 100 * US))
    assert scene.told() == [("kernel_gap", "kernel_gap", 110, 2), ("kernel_gap", "kernel_gap", 212, 3)]


def test_no_launch_is_unknown_unless_the_stream_tells() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.trace.slice(scene.gpu, "lost", "kernel", 150 * US, 100 * US)
    scene.kernel(100, 300)
    scene.trace.slice(scene.gpu, "lost", "kernel", 500 * US, 100 * US)
    frame = scene.rows()
    assert frame["cause"].tolist() == ["kernel_gap", "kernel_gap", "unknown"]
    assert frame["confidence"].tolist() == ["medium", "high", "low"]
    assert "shows that it came before" in frame["reason"][0] and "no launch" in frame["reason"][2]


def test_correlation_ids_below_all_recorded_ones_were_launched_before_the_recording() -> None:
    scene = Scene()
    scene.trace._next_correlation = 100
    scene.trace.slice(scene.gpu, "lost", "kernel", 10 * US, 50 * US, correlation_id=98)
    scene.trace.slice(scene.gpu, "lost", "kernel", 70 * US, 50 * US, correlation_id=99)
    scene.kernel(800, 900)
    frame = scene.rows()
    assert frame["cause"].tolist()[0] == "kernel_gap" and "correlation" in frame["reason"][0]


def test_a_late_launch_that_the_device_then_holds() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.kernel(120, 900)
    assert scene.told() == [
        ("dispatch", "dispatch", 110, 10),
        ("launch", "launch", 120, 5),
        ("dispatch", "dispatch", 125, 100),
        ("kernel_gap", "kernel_gap", 225, 675),
    ]


def test_autograd_launches_wait_for_the_training_loop() -> None:
    scene = Scene()
    autograd = scene.trace.thread("autograd")
    scene.trace.slice(autograd, "AddmmBackward", "op", 480 * US, 200 * US)
    scene.kernel(0, 10)
    scene.host("enumerate(DataLoader)#x", "input", 100, 380)
    scene.kernel(490, 500, thread=autograd)
    assert scene.told()[0] == ("input", "input", 110, 370)


def test_a_wait_starves_the_device_later() -> None:
    """The wait costs no gap of its own: three small gaps after it do, and they add up to less than it took away."""
    scene = Scene()
    scene.kernel(0, 10, 1000)
    wait = scene.host("cudaStreamSynchronize", "synchronization", 20, 995)
    for n in range(3):
        scene.host("aten::mm", "op", 1020 + 150 * n, 40)
        scene.kernel(1050 + 150 * n, 1060 + 150 * n)
    frame = scene.rows()
    assert set(frame["root_cause"]) == {"synchronization"}
    assert set(frame["root_slice_id"]) == {wait}
    assert {"dispatch", "launch"} <= set(frame["cause"])
    assert frame["confidence"].isin(["medium"]).all()


def test_a_long_cause_of_its_own_is_never_paid_from_the_ledger() -> None:
    scene = Scene()
    scene.kernel(0, 10, 1000)
    scene.host("cudaStreamSynchronize", "synchronization", 20, 995)
    scene.host("enumerate(DataLoader)#x", "input", 1020, 900)
    scene.kernel(1930, 1940)
    frame = scene.rows()
    assert set(frame.loc[frame["cause"] == "input", "root_cause"]) == {"input"}
    assert set(frame.loc[frame["cause"] != "input", "root_cause"]) == {"synchronization"}


def test_a_debt_pays_until_it_is_used_up() -> None:
    scene = Scene()
    scene.kernel(0, 10, 100)
    scene.host("cudaStreamSynchronize", "synchronization", 60, 52)
    scene.host("aten::mm", "op", 112, 288)
    scene.kernel(400, 410)
    frame = scene.rows()
    by_root = frame.groupby("root_cause")["dur"].sum().to_dict()
    assert by_root == {"synchronization": 50 * US, "dispatch": 245 * US, "launch": 5 * US}


def test_kernels_before_their_launch() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.kernel(300, 200)
    told = scene.told()
    assert told == [("dispatch", "dispatch", 110, 90)]


def test_a_gap_is_split_at_work_of_zero_length() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.kernel(20, 300, 0)
    scene.host("enumerate(DataLoader)#x", "input", 305, 680)
    scene.kernel(990, 1000)
    frame = scene.rows()
    assert frame["cause"].tolist()[0] == "kernel_gap" and int(frame["dur"][0]) == 190 * US


def test_the_end_of_a_step_that_the_host_cut_is_a_tail() -> None:
    trace = TraceBuilder()
    trace.thread()
    trace.slice(trace.stream(), "gemm", "kernel", 20, 30)
    trace.slice(trace.thread(), "aten::x", "op", 0, 100)
    trace.step(0, 0, 100)
    frame = stalls(trace.recording(), step=0)
    assert frame[["cause", "ts", "dur"]].to_numpy().tolist() == [["unknown", 0, 20], ["tail", 50, 50]]


def test_a_recording_of_launches_alone_says_that_it_does_not_know() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 10 * US))
    trace.launched(main, gpu, call=(2000 * US, 5 * US), work=(2010 * US, 10 * US))
    frame = stalls(trace.recording())
    assert frame["cause"].tolist()[0] == "unknown" and "nothing of the host" in frame["reason"][0]


def test_threads_in_a_devices_place() -> None:
    trace = TraceBuilder()
    main = trace.thread("main")
    trace.slice(main, "ProfilerStep#0", "annotation", 0, 2000 * US)
    trace.step(0, 0, 2000 * US)
    trace.slice(main, "enumerate(DataLoader)#x", "input", 0, 300 * US)
    trace.slice(main, "aten::mm", "op", 300 * US, 200 * US)
    trace.slice(main, "aten::copy_", "op", 1000 * US, 50 * US)
    recording = trace.recording()
    assert_exact(recording)
    frame = stalls(recording)
    told = frame[["state", "cause", "ts", "dur"]].to_numpy().tolist()
    assert told == [
        ["stall", "input", 0, 300 * US],
        ["stall", "python", 500 * US, 500 * US],
        ["data_movement", "copy", 1000 * US, 50 * US],
        ["stall", "tail", 1050 * US, 950 * US],
    ]
    assert frame["device_type"].unique().tolist() == ["cpu"] and frame["device_index"].isna().all()


def test_windows_clip_and_keep_ids() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    scene.kernel(900, 910)
    whole = scene.rows()
    part = stalls(scene.trace.recording(), window=(200 * US, 300 * US))
    assert part[["stall_id", "ts", "dur"]].to_numpy().tolist() == [[whole["stall_id"][0], 200 * US, 100 * US]]


def test_the_same_from_files(tmp_path: Path) -> None:
    traces = []
    for rank in (0, 1):
        trace = TraceBuilder(rank=rank)
        main, gpu = trace.thread("main"), trace.stream(7)
        trace.step(3, 0, 1000 * US)
        trace.slice(main, "ProfilerStep#3", "annotation", 0, 1000 * US)
        trace.python(main, "train.py(7): epoch", 0, 1000 * US)
        trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 100 * US))
        trace.slice(main, "enumerate(DataLoader)#x", "input", 105 * US, (200 + rank) * US)
        trace.launched(main, gpu, call=(500 * US, 5 * US), work=(510 * US, 100 * US))
        traces.append(trace)
    memory, files = traces[0].recording(traces[1]), traces[0].write(tmp_path / "run", traces[1])
    pd.testing.assert_frame_equal(stalls(memory), stalls(files))
    pd.testing.assert_frame_equal(step_breakdown(memory), step_breakdown(files))


def test_a_step_that_is_not_there() -> None:
    scene = Scene()
    scene.kernel(0, 10)
    with pytest.raises(UsageError, match="rank 0 has no step 7"):
        stalls(scene.trace.recording(), step=7)


@pytest.mark.parametrize(
    "build", [lambda t: None, lambda t: t.thread(), lambda t: t.slice(t.stream(), "k", "kernel", 5, 0)]
)
def test_next_to_nothing(build: Any) -> None:
    trace = TraceBuilder()
    build(trace)
    recording = trace.recording()
    frame = stalls(recording)
    assert frame.empty and "root_cause" in frame.columns
    assert stall_groups(recording).empty


def test_the_verdict_on_real_data_loading(traces: Path) -> None:
    """The pair differs only in the number of DataLoader workers: with none the device waits for input."""
    share = {}
    for workers in (0, 4):
        recording = open_recording(traces / "kineto" / f"v100_resnet50_workers{workers}.json.gz")
        groups = stall_groups(recording, by="line")
        groups = groups[groups["state"] == "stall"]
        share[workers] = groups.loc[groups["root_cause"] == "input", "dur"].sum() / groups["dur"].sum()
        if workers == 0:
            top = groups.iloc[0]
            assert (top["root_cause"], top["file"], top["line"]) == ("input", "resnet50_profiler_api.py", 42)
    assert share[0] > 0.7 and share[4] < 0.05


def test_every_real_trace(traces: Path) -> None:
    """Sums to the ns, and at most 5 % of the idle time unknown where launches and ops or Python are recorded."""
    with (traces / "expected.csv").open() as file:
        names = [row["file"] for row in csv.DictReader(file)]
    checked = 0
    for name in names:
        path = traces / name if (traces / name).exists() else traces / "kineto" / name
        recording = open_recording(path)
        for rank in recording.ranks:
            assert_exact(recording, rank)
            activity = rank_activity(recording, rank)
            if any((activity.timeline.launch[d.rows] >= 0).any() for d in activity.devices):
                frame = stalls(recording, ranks=(rank,))
                frame = frame[frame["state"] == "stall"]
                unknown = frame.loc[frame["cause"] == "unknown", "dur"].sum()
                assert unknown <= 0.05 * frame["dur"].sum(), name
                checked += 1
    assert checked >= 25
