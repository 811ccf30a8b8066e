"""import, export, trim and merge: what goes in comes out."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope import open_recording
from stallscope.cli.transfer.chrome_trace import microseconds
from stallscope.profiler.recording.schema import TABLES
from tests.builders import TraceBuilder
from tests.cli.conftest import Run
from tests.cli.recordings import MS, START, training, written


def events_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = document_of(path)["traceEvents"]
    return events


def document_of(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    document: dict[str, Any] = json.loads(
        gzip.decompress(content) if path.suffix == ".gz" else content, parse_float=str
    )
    return document


def slices_of(path: Path) -> list[tuple[Any, ...]]:
    rows = open_recording(path).table("slices", columns=["rank", "ts", "dur", "name", "kind"]).to_pylist()
    return sorted((row["rank"], row["ts"], row["dur"] or 0, row["name"], row["kind"]) for row in rows)


@given(st.integers(0, 10**19))
def test_microseconds_are_exact(ns: int) -> None:
    text = microseconds(ns)
    whole, _, part = text.partition(".")
    assert int(whole) * 1000 + int((part + "000")[:3]) == ns
    assert not part.endswith("0")


def test_a_chrome_trace_holds_every_slice_flow_and_name(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json.gz"
    result = run("export", two_ranks, "-o", file)
    assert "56 slices, 16 arrows, 8 memory events" in result.stderr
    events = events_of(file)
    by_phase = {phase: [e for e in events if e["ph"] == phase] for phase in "XsfiM"}
    assert [len(by_phase[phase]) for phase in "Xsfi"] == [56, 16, 16, 8]
    assert {e["args"]["name"] for e in by_phase["M"] if e["name"] == "process_name"} == {
        "rank 0 python", "rank 1 python", "rank 0 cuda 0", "rank 1 cuda 0"
    }  # fmt: skip
    header = document_of(file)
    assert header["baseTimeNanoseconds"] == START
    assert header["deviceProperties"][0]["name"] == "Test GPU"


def test_arrows_start_and_end_at_their_slices(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    run("export", two_ranks, "--rank", 1, "-o", tmp_path / "out.json")
    events = events_of(tmp_path / "out.json")
    slices = {(e["pid"], e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
    starts = {e["id"]: slices[e["pid"], e["tid"], e["ts"]] for e in events if e["ph"] == "s"}
    ends = {e["id"]: slices[e["pid"], e["tid"], e["ts"]] for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert {e["name"] for e in starts.values()} == {"cudaLaunchKernel"}
    assert {e["name"] for e in ends.values()} == {"gemm_kernel", "Memcpy HtoD"}
    assert all(starts[i]["args"]["correlation"] == ends[i]["args"]["correlation"] for i in starts)


def test_no_two_slices_overlap_on_one_row_without_nesting(run: Run, tmp_path: Path) -> None:
    trace = TraceBuilder()
    gpu = trace.stream(7)
    for ts, dur in [(0, 100), (50, 100), (60, 100), (70, 20), (200, 10)]:
        trace.slice(gpu, f"k{ts}", "kernel", START + ts, dur)
    file = tmp_path / "out.json"
    result = run("export", written(tmp_path / "r", trace), "-o", file)
    assert "2 further rows" in result.stderr
    rows: dict[Any, list[tuple[int, int]]] = {}
    for e in events_of(file):
        if e["ph"] == "X":
            ts, dur = (round(float(e[key]) * 1000) for key in ("ts", "dur"))
            rows.setdefault((e["pid"], e["tid"]), []).append((ts, ts + dur))
    assert sum(map(len, rows.values())) == 5
    for spans in rows.values():
        for a in spans:
            for b in spans:
                nested = (a[0] <= b[0] and b[1] <= a[1]) or (b[0] <= a[0] and a[1] <= b[1])
                assert nested or a[1] <= b[0] or b[1] <= a[0]


def test_hostile_names_stay_json(run: Run, tmp_path: Path) -> None:
    trace = training(steps=1)
    name = 'quote " backslash \\ \x00\x1b \u2028 \U0001f525'
    trace.slice(trace.thread("t"), name, "op", START, 5, args='{"a": "}", "b": {"c": []}}')
    file = tmp_path / "out.json"
    run("export", written(tmp_path / "r", trace), "-o", file)
    [event] = [e for e in events_of(file) if e["name"] == name]
    assert event["args"] == {"a": "}", "b": {"c": []}}


def test_export_then_import_gives_the_same_slices(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        file = tmp_path / f"rank{rank}.json"
        run("export", two_ranks, "--rank", rank, "-o", file)
        before = [row for row in slices_of(two_ranks) if row[0] == rank]
        assert slices_of(file) == before
        launches = open_recording(file).table("flows").num_rows
        assert launches == 8


@pytest.mark.parametrize("name", ["mi250_minitoy.json.gz", "v100_resnet50_workers0.json.gz", "h100_qwen_0.5b.json.gz"])
def test_a_real_trace_survives_export_and_import(run: Run, traces: Path, tmp_path: Path, name: str) -> None:
    source = traces / "kineto" / name
    file = tmp_path / "again.json"
    run("export", source, "-o", file)
    assert slices_of(file) == slices_of(source)
    again, original = open_recording(file), open_recording(source)
    for table in ("memory", "flows", "stacks", "steps", "collectives", "groups"):
        assert again.table(table).num_rows == original.table(table).num_rows, table


def test_the_call_stack_of_an_op_is_written_where_no_python_slice_shows_it(run: Run, tmp_path: Path) -> None:
    trace = TraceBuilder()
    plain, python = (trace.thread(f"t{n}", process_id=1, thread_id=n) for n in (5, 6))
    for frame_id, (file, line, function) in enumerate([("train.py", 3, "main"), ("model.py", 9, "forward;x")]):
        trace.row("frames", frame_id=frame_id, file=file, line=line, function=function)
    trace.row("stacks", stack_id=70, frame_ids=[0])
    trace.row("stacks", stack_id=71, frame_ids=[0, 1])
    trace.slice(plain, "aten::mm", "op", START, 10, stack_id=71)
    outer = trace.slice(python, "train.py(3): main", "python", START, 50, stack_id=70)
    inner = trace.slice(python, "model.py(9): forward;x", "python", START + 60, 10, stack_id=71)
    trace.slice(python, "aten::add", "op", START + 61, 5, stack_id=71)
    file = tmp_path / "out.json"
    run("export", written(tmp_path / "r", trace), "-o", file)
    args = {e["name"]: e.get("args") for e in events_of(file) if e["ph"] == "X"}
    assert args["aten::mm"] == {"Call stack": "model.py(9): forward,x;train.py(3): main"}
    assert args["aten::add"] is None
    assert args["model.py(9): forward;x"] == {"Python id": inner, "Python parent id": outer}
    assert args["train.py(3): main"] == {"Python id": outer}


def test_process_groups_are_described_as_the_profiler_does(run: Run, tmp_path: Path) -> None:
    trace = training(steps=1)
    trace.row("groups", group_id=1, name="0", description="default_pg", ranks=[0, 1], kind="dp")
    file = tmp_path / "out.json"
    run("export", written(tmp_path / "r", trace), "-o", file)
    [group] = document_of(file)["distributedInfo"]["pg_config"]
    assert group["ranks"] == [0, 1]
    assert group["pg_desc"] == "default_pg"


def test_tables_as_csv_and_parquet(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    run("export", two_ranks, "--format", "csv", "--table", "steps,slices,frames", "-o", tmp_path / "csv")
    assert sorted(p.name for p in (tmp_path / "csv").iterdir()) == ["slices.csv", "steps.csv"]
    with (tmp_path / "csv" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["ts"]) for row in rows] == [START + n * 10 * MS for n in range(4)] * 2
    assert rows[0]["device_index"] == ""
    run("export", two_ranks, "--format", "parquet", "--rank", 1, "-o", tmp_path / "parquet")
    slices = pq.read_table(tmp_path / "parquet" / "slices.parquet")
    assert slices.schema.names == TABLES["slices"].schema.names
    assert slices.num_rows == 28
    assert "not empty" in run(
        "export", two_ranks, "--format", "csv", "-o", tmp_path / "csv", exit_code=2
    ).stderr  # fmt: skip


def test_an_export_of_a_window(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    run("export", two_ranks, "--window", "10ms:20ms", "--rank", 0, "-o", tmp_path / "part.json")
    names = [e["name"] for e in events_of(tmp_path / "part.json") if e["ph"] == "X"]
    assert "ProfilerStep#1" in names
    assert "ProfilerStep#0" not in names
    assert "ProfilerStep#2" not in names


def test_a_file_in_the_way_of_an_export_stays(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text("mine")
    run("export", two_ranks, "-o", file, exit_code=2)
    assert file.read_text() == "mine"


def test_trim_keeps_what_the_part_refers_to(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    run("trim", two_ranks, "--window", "16.4ms:17ms", "-o", tmp_path / "part")
    part = open_recording(tmp_path / "part")
    names = part.table("slices", ranks=0)["name"].to_pylist()
    # Only the kernel lies in the window: its launch, the op around it and the step are what it refers to.
    assert sorted(names) == ["ProfilerStep#1", "aten::mm", "cudaLaunchKernel", "gemm_kernel"]
    assert part.table("flows", ranks=0).num_rows == 1
    ids = set(part.table("slices")["slice_id"].to_pylist())
    parents = set(part.table("slices")["parent_id"].drop_null().to_pylist())
    assert parents <= ids
    assert part.table("steps").num_rows == 0
    assert part.table("losses")["kind"].to_pylist() == ["trimmed", "trimmed"]
    original = {row["slice_id"]: row for row in open_recording(two_ranks).table("slices").to_pylist()}
    assert all(original[row["slice_id"]] == row for row in part.table("slices").to_pylist())


def test_trim_to_a_step(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    run("trim", two_ranks, "--step", 2, "--rank", 1, "-o", tmp_path / "part")
    part = open_recording(tmp_path / "part")
    assert part.ranks == (1,)
    assert part.table("steps")["step"].to_pylist() == [2]
    assert part.rank_info(1)["trimmed_from"]["step"] == 2
    assert "no step 9: it has steps 0 to 3" in run(
        "trim", two_ranks, "--step", 9, "-o", tmp_path / "b", exit_code=2
    ).stderr  # fmt: skip


def test_counters_keep_the_value_that_holds_at_the_start(run: Run, tmp_path: Path) -> None:
    trace = training(steps=2)
    track = trace.new_id()
    trace.row("tracks", track_id=track, kind="counter", name="power", unit="W")
    for ts, value in [(0, 1.0), (1, 2.0), (12, 3.0)]:
        trace.row("counters", track_id=track, ts=START + ts * MS, value=value)
    run("trim", written(tmp_path / "r", trace), "--window", "5ms:15ms", "-o", tmp_path / "part")
    assert open_recording(tmp_path / "part").table("counters")["value"].to_pylist() == [2.0, 3.0]


def test_trim_needs_to_be_told_what_to_keep(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    run("trim", two_ranks, "-o", tmp_path / "a", exit_code=2)
    words = ("trim", two_ranks, "-o", tmp_path / "a", "--step", 1, "--window", "0ms:1ms")
    assert "exclude each other" in run(*words, exit_code=2).stderr
    assert "has no rank 7" in run("trim", two_ranks, "--rank", 7, "-o", tmp_path / "a", exit_code=2).stderr


def test_merge_joins_ranks(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    third = written(tmp_path / "third", training(2))
    run("merge", two_ranks, third, "-o", tmp_path / "all")
    joined = open_recording(tmp_path / "all")
    assert joined.ranks == (0, 1, 2)
    assert slices_of(tmp_path / "all") == slices_of(two_ranks) + slices_of(third)
    assert joined.info["settings"]["merged_from"] == [str(two_ranks), str(third)]
    assert {joined.rank_info(rank)["run_id"] for rank in joined.ranks} == {joined.info["run_id"]}


def test_one_run_stays_one_run(run: Run, tmp_path: Path) -> None:
    halves = [written(tmp_path / str(rank), training(rank), run_id="the run") for rank in (0, 1)]
    run("merge", *halves, "-o", tmp_path / "all")
    assert open_recording(tmp_path / "all").info["run_id"] == "the run"


def test_the_same_rank_twice_names_both(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other", training(1))
    message = run("merge", two_ranks, other, "-o", tmp_path / "all", exit_code=2).stderr
    assert f"rank 1 is in {two_ranks} and in {other}" in message
    assert not (tmp_path / "all").exists()
    run("merge", two_ranks, "-o", tmp_path / "all", exit_code=2)


def test_merge_never_replaces_unasked(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other", training(2))
    target = written(tmp_path / "target", training(5))
    run("merge", two_ranks, other, "-o", target, exit_code=1)
    assert open_recording(target).ranks == (5,)
    run("merge", two_ranks, other, "-o", target, "--force")
    assert open_recording(target).ranks == (0, 1, 2)
    run("merge", two_ranks, other, "-o", other, exit_code=2)


def test_import_writes_a_recording(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    file = tmp_path / "rank0.json"
    run("export", two_ranks, "--rank", 0, "-o", file)
    result = run("import", file, "-o", tmp_path / "imported", "--label", "mine")
    assert "1 rank, 28 slices" in result.stderr
    assert open_recording(tmp_path / "imported").info["label"] == "mine"
    assert slices_of(tmp_path / "imported") == slices_of(file)
