"""query: formats, limits, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.cli.conftest import Run
from tests.cli.recordings import START, training, written

COUNTS = "select rank, count(*) as slices from slices group by rank order by rank"


def test_a_table(run: Run, two_ranks: Path) -> None:
    assert run("query", two_ranks, COUNTS).stdout.splitlines() == ["rank  slices", "   0      28", "   1      28"]


def test_csv_json_and_parquet_say_the_same(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    assert run("query", two_ranks, COUNTS, "--format", "csv").stdout == '"rank","slices"\n0,28\n1,28\n'
    rows = [{"rank": 0, "slices": 28}, {"rank": 1, "slices": 28}]
    assert json.loads(run("query", two_ranks, COUNTS, "--format", "json").stdout) == rows
    for form in ("csv", "json", "parquet"):
        file = tmp_path / f"result.{form}"
        assert run("query", two_ranks, COUNTS, "--format", form, "-o", file).stdout == ""
    assert pq.read_table(tmp_path / "result.parquet").to_pylist() == rows
    assert json.loads((tmp_path / "result.json").read_text()) == rows
    assert (tmp_path / "result.csv").read_text() == '"rank","slices"\n0,28\n1,28\n'


def test_exact_integers_survive(run: Run, two_ranks: Path) -> None:
    rows = json.loads(run("query", two_ranks, "select min(ts) as ts from slices", "--format", "json").stdout)
    assert rows == [{"ts": START}]


def test_sql_from_stdin(run: Run, two_ranks: Path) -> None:
    assert "28" in run("query", two_ranks, "-", stdin=COUNTS).stdout


def test_a_long_table_says_what_it_leaves_out(run: Run, two_ranks: Path) -> None:
    result = run("query", two_ranks, "select ts from slices")
    assert len(result.stdout.splitlines()) == 51
    assert "6 of 56 rows are not shown" in result.stderr
    assert len(run("query", two_ranks, "select ts from slices", "-n", 0).stdout.splitlines()) == 57
    assert len(run("query", two_ranks, "select ts from slices", "--format", "csv").stdout.splitlines()) == 57


def test_a_wide_table_names_the_columns_that_have_no_room(run: Run, two_ranks: Path) -> None:
    result = run("query", two_ranks, "select * from slices limit 3")
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    assert "args" in result.stderr
    assert "--format csv" in result.stderr


def test_an_unknown_column_or_table_names_near_ones(run: Run, two_ranks: Path) -> None:
    assert "Did you mean dur?" in run("query", two_ranks, "select durr from slices", exit_code=1).stderr
    assert "Did you mean slices?" in run("query", two_ranks, "select 1 from slicez", exit_code=1).stderr


def test_nothing_but_a_select_runs(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    target = tmp_path / "stolen.csv"
    run("query", two_ranks, f"copy slices to '{target}'", exit_code=1)
    run("query", two_ranks, "select * from read_csv('/etc/passwd')", exit_code=1)
    assert not target.exists()


def test_a_file_in_the_way_is_not_overwritten(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("mine")
    words = ("query", two_ranks, COUNTS, "--format", "csv", "-o", file)
    assert "will not be overwritten" in run(*words, exit_code=2).stderr
    assert file.read_text() == "mine"
    run(*words, "--force")
    assert file.read_text() != "mine"
    assert run("query", two_ranks, COUNTS, "--format", "parquet", exit_code=2).stderr.count("-o") == 1


def test_names_cannot_act_on_the_terminal(run: Run, tmp_path: Path) -> None:
    trace = training(steps=1)
    trace.slice(trace.thread("t"), "[red]\x1b]0;owned\x07\nforged row", "op", START, 5)
    recording = written(tmp_path / "r", trace)
    out = run("query", recording, "select name from slices where name like '%owned%'").stdout
    assert "[red]\\x1b]0;owned\\x07\\nforged row" in out
