"""The commands that explain: what they print, in which width, and the keys of their JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from stallscope.cli.command import CommandWithExamples
from stallscope.cli.main import main
from stallscope.cli.memory import _growth_words
from stallscope.cli.reference_page import write
from tests.builders import TraceBuilder
from tests.cli.conftest import Run
from tests.cli.recordings import MS, START, training, written
from tests.conftest import REPOSITORY

REPORTS = ("summary", "info", "steps", "stalls", "ops", "kernels", "memory", "source", "collectives")
SMALL_TRACES = ("mi250_minitoy.json.gz", "cpu_only_rank34.json.gz", "a100_simple_add_cuda_sync.json.gz")


def json_of(run: Run, *arguments: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return document


@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_a_page(name: str, run: Run, two_ranks: Path) -> None:
    lines = run(name, two_ranks).stdout.splitlines()
    assert all(len(line) <= 100 for line in lines if not line.startswith("  path "))
    assert lines or name in ("source", "collectives")


@pytest.mark.parametrize("name", REPORTS)
def test_json_is_one_document_with_the_documented_keys(name: str, run: Run, two_ranks: Path) -> None:
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, CommandWithExamples)
    document = json_of(run, name, two_ranks)
    documented = set(command.output_keys)
    assert documented <= document.keys()
    assert document.keys() - documented <= {"created_ns", "settings"}, "document every key"
    for meaning, rows in ((command.output_keys[key], document[key]) for key in documented):
        if isinstance(rows, list) and rows and "{" in meaning:
            for key in rows[0]:
                assert re.search(rf"\b{key}\b", meaning) or name == "info", f"{name}: {key} is not documented"


def test_summary_of_a_recording(run: Run, two_ranks: Path) -> None:
    text = run("summary", two_ranks).stdout
    lines = text.splitlines()
    assert lines[0].startswith("two  2 ranks · Test GPU · 56 slices  completed")
    assert lines[2].startswith("> The device waits for the next batch")
    assert len(lines) <= 45
    [bar] = [line for line in lines if line.startswith("  rank 1 cuda 0")]
    assert "█" in bar
    assert "░" in bar
    assert "peak 1.00 MiB on cuda 0" in text
    assert "num_workers" in text


def test_summary_json_holds_exact_states(run: Run, two_ranks: Path) -> None:
    document = json_of(run, "summary", two_ranks)
    assert document["overall"]["window_ns"] == 2 * 33_100_000
    assert document["overall"]["idle_ns"] == 2 * 20_700_000
    assert document["ranks"][1]["compute_ns"] == 12 * MS
    assert document["devices"][0]["data_movement_ns"] == 400_000


def test_summary_of_a_step_a_window_and_a_rank(run: Run, two_ranks: Path) -> None:
    assert json_of(run, "summary", two_ranks, "--step", 1, "--rank", 1)["overall"]["window_ns"] == 10 * MS
    assert json_of(run, "summary", two_ranks, "--window", "6.3ms:7.3ms", "--rank", 0)["overall"]["compute_ns"] == MS
    assert "Step 1" in run("summary", two_ranks, "--step", 1).stdout
    assert "it has steps 0, 1, 2, 3" in run("summary", two_ranks, "--step", 8, exit_code=2).stderr
    assert "outside the recording" in run("summary", two_ranks, "--window", "1s:2s", exit_code=2).stderr
    assert "has no rank 4" in run("summary", two_ranks, "--rank", 4, exit_code=2).stderr


def test_a_terminal_that_knows_no_unicode_gets_ascii(two_ranks: Path) -> None:
    result = CliRunner(charset="ascii").invoke(main, ["summary", str(two_ranks)])
    assert result.exit_code == 0
    text = result.stdout_bytes.decode("ascii")
    assert "####" in text
    assert "...." in text
    assert "\\u" not in text


def test_a_killed_rank_is_not_called_completed(run: Run, tmp_path: Path) -> None:
    recording = written(tmp_path / "r", training(), status="failed")
    text = run("summary", recording).stdout
    assert "failed" in text.splitlines()[0]
    assert "Rank 0 did not complete: failed." in text


def test_steps(run: Run, two_ranks: Path) -> None:
    lines = run("steps", two_ranks).stdout.splitlines()
    assert len(lines) == 11
    assert "compute" in lines[0]
    assert re.match(r"rank 0 step 0\s+10\.0 ms\s+10\.0 ms", lines[1])
    rows = json_of(run, "steps", two_ranks, "--rank", 1)["steps"]
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert all(row["compute_ns"] + row["data_movement_ns"] + row["stall_ns"] == row["dur"] for row in rows)
    assert rows[0]["ts"] == START + 6_500_000
    assert [row["step"] for row in json_of(run, "steps", two_ranks, "--rank", 1, "--step", 2)["steps"]] == [2]


def test_stalls_add_up_to_the_time_without_work(run: Run, two_ranks: Path) -> None:
    for by in ("line", "root_cause", "cause", "none"):
        rows = json_of(run, "stalls", two_ranks, "--by", by, "--rank", 0)["stalls"]
        assert sum(row["dur"] for row in rows if row["state"] == "stall") == 20_700_000
        assert rows == sorted(rows, key=lambda row: -row["dur"])
    text = run("stalls", two_ranks).stdout
    assert "input" in text
    assert "waiting for the next batch" in text


def test_ops_and_kernels(run: Run, two_ranks: Path) -> None:
    kernels = json_of(run, "kernels", two_ranks)["kernels"]
    assert [(row["rank"], row["name"], row["count"]) for row in kernels] == [
        (0, "gemm_kernel", 4),
        (0, "Memcpy HtoD", 4),
        (1, "gemm_kernel", 4),
        (1, "Memcpy HtoD", 4),
    ]
    result = run("ops", two_ranks)
    assert "aten::mm" in result.stdout
    assert "This is rank 0 of 2" in result.stderr
    both = run("ops", two_ranks, "--rank", "0-1").stdout
    assert "rank 0:" in both
    assert "rank 1:" in both


def test_sort(run: Run, two_ranks: Path) -> None:
    rows = json_of(run, "kernels", two_ranks, "--rank", 0, "--sort", "name")["kernels"]
    assert [row["name"] for row in rows] == ["Memcpy HtoD", "gemm_kernel"]
    rows = json_of(run, "kernels", two_ranks, "--rank", 0, "--sort", "total_ns")["kernels"]
    assert rows[0]["name"] == "gemm_kernel"
    message = run("kernels", two_ranks, "--sort", "total", exit_code=2).stderr
    assert "Did you mean total_ns" in message


def test_memory(run: Run, two_ranks: Path) -> None:
    document = json_of(run, "memory", two_ranks, "--rank", 0)
    assert document["devices"][0]["peak_allocated_bytes"] == 1 << 20
    assert document["holders"][0]["holder"] == "aten::mm"
    assert "Held at the peak" in run("memory", two_ranks).stdout
    late = json_of(run, "memory", two_ranks, "--rank", 0, "--step", 2)
    assert late["holders"][0]["at_ts"] > document["holders"][0]["at_ts"]
    run("memory", two_ranks, "--window", "0ms:1ms", exit_code=2)


def test_what_is_not_in_a_recording_is_said(run: Run, tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread("t"), "f", "other", START, 5)
    recording = written(tmp_path / "r", trace)
    assert "profile_memory=True" in run("memory", recording).stderr
    assert "No collective" in run("collectives", recording).stderr
    assert "No steps" in run("steps", recording).stderr
    for name in ("stalls", "ops", "kernels"):
        assert run(name, recording).stderr
    assert "Traceback" not in run("summary", recording).output


def test_info_lists_losses_and_ranks(run: Run, tmp_path: Path) -> None:
    trace = training()
    trace.row("losses", collector="x", kind="truncated", severity="data_loss", count=3, detail="cut\x1b[2Jhere")
    recording = written(tmp_path / "r", trace)
    text = run("info", recording).stdout
    assert "cut\\x1b[2Jhere" in text
    assert "truncated" in text
    facts = json_of(run, "info", recording)
    assert facts["ranks"][0]["rows"]["slices"] == 28
    assert facts["ranks"][0]["start_ns"] == START
    assert facts["losses"][0]["count"] == 3


@pytest.mark.parametrize("name", REPORTS)
def test_hostile_names_reach_no_terminal(name: str, run: Run, tmp_path: Path) -> None:
    trace = TraceBuilder()
    bad = "[bold red]\x1b]0;owned\x07\r\n\u202eevil"
    main_thread, gpu = trace.thread(bad, process_id=1, thread_id=1), trace.stream(7)
    trace.row("devices", device_type="cuda", device_index=0, name=bad)
    trace.row("losses", collector=bad, kind=bad, severity="info", detail=bad)
    trace.slice(main_thread, bad, "op", START, 50)
    trace.launched(main_thread, gpu, call=(START + 10, 5), work=(START + 100, 10), name=bad)
    trace.launched(main_thread, gpu, call=(START + 20, 5), work=(START + 200, 10), name=bad + "2")
    trace.row(
        "memory",
        event_id=1,
        ts=START + 15,
        device_type="cuda",
        device_index=0,
        address=1,
        bytes=5,
        track_id=main_thread,
    )
    result = run(name, written(tmp_path / "r", trace))
    for character in ("\x1b", "\x07", "\r", "\u202e"):
        assert character not in result.output


def test_growth_of_memory_in_words() -> None:
    growing = {"verdict": "grows", "steps": 9, "bytes_per_step": 1 << 20, "total_bytes": 8 << 20, "note": "as noted"}
    assert _growth_words({**growing, "grew": 8, "shrank": 0}) == (
        "it grows, typically 1.00 MiB a step; 8.00 MiB more after 9 steady steps, up 8 times and down 0 times"
    )
    steady = {**growing, "verdict": "steady", "total_bytes": -1024}
    assert _growth_words({**steady, "grew": 1, "shrank": 2}).startswith("no trend; 1.00 KiB less after 9 steady")
    assert _growth_words({**steady, "grew": 0, "shrank": 0}) == "as noted"


@pytest.mark.parametrize("trace", SMALL_TRACES)
def test_every_command_on_recordings_works_on_real_traces(trace: str, run: Run, traces: Path, tmp_path: Path) -> None:
    source = traces / "kineto" / trace
    recording = tmp_path / "whole"
    run("import", source, "-o", recording)
    slices = json_of(run, "info", recording)["ranks"][0]["rows"]["slices"]
    counted = run("query", recording, "SELECT count(*) AS n FROM slices", "--format", "json").stdout
    assert json.loads(counted) == [{"n": slices}]
    run("export", recording, "-o", tmp_path / "out.json")
    run("trim", recording, "--window", ":1s", "-o", tmp_path / "part")
    run("redact", recording, "-o", tmp_path / "shared")
    for copy in (tmp_path / "part", tmp_path / "shared"):
        assert json_of(run, "info", copy)["ranks"][0]["rows"]["slices"] <= slices


@pytest.mark.parametrize("trace", SMALL_TRACES)
@pytest.mark.parametrize("name", REPORTS)
def test_every_report_on_real_traces(name: str, trace: str, run: Run, traces: Path) -> None:
    source = traces / "kineto" / trace
    lines = run(name, source).stdout.splitlines()
    assert all(len(line) <= 100 for line in lines if not line.startswith("  path "))
    json_of(run, name, source)


def test_several_files_are_ranks_of_one_recording(run: Run, traces: Path) -> None:
    files = sorted((traces / "kineto" / "dlrm_v100x8").iterdir())[:2]
    assert [rank["rank"] for rank in json_of(run, "summary", *files)["ranks"]] == [0, 1]
    for name in REPORTS:
        lines = run(name, *files).stdout.splitlines()
        assert all(len(line) <= 100 for line in lines if not line.startswith("  path ")), name
    assert run("summary", *files).stdout.startswith("rank0.pt.trace.json.gz and 1 more  2 ranks of 8")
    totals = json_of(run, "collectives", *files)
    assert totals["summary"]["lower_bound"] is True
    assert [row["rank"] for row in totals["collectives"]] == [0, 1]


def test_the_page_of_the_command_line_is_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(["--check", str(REPOSITORY / "docs" / "cli.md")]) == 0
    stale = tmp_path / "cli.md"
    stale.write_text("old")
    assert write(["--check", str(stale)]) == 1
    assert "out of date" in capsys.readouterr().err
    assert write([str(stale)]) == 0
    assert write(["--check", str(stale)]) == 0
