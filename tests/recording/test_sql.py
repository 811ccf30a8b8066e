"""SQL reads the recording's tables and nothing else, for a limited time and in limited memory."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from stallscope.profiler.recording import sql
from stallscope.profiler.recording.errors import QueryError
from stallscope.profiler.recording.reader import Recording, open_recording
from stallscope.profiler.recording.schema import TABLES
from stallscope.profiler.recording.writer import RecordingWriter

from .builders import slices


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("it's a run") / "recording"
    writer = RecordingWriter.create(path)
    for rank in (0, 1):
        with writer.rank(rank) as rows:
            for part in range(2):
                rows.append("slices", slices(200, seed=part, rank=rank, first=200 * part))
                rows.flush()
    return open_recording(path)


def test_every_table_is_a_view_with_the_columns_of_the_schema(recording: Recording) -> None:
    for name, table in TABLES.items():
        assert recording.sql(f'select * from "{name}"').column_names == table.schema.names


def test_the_answer_equals_one_computed_without_sql(recording: Recording) -> None:
    result = recording.sql(
        "select name, count(*) n, sum(dur) total from slices where rank = 1 group by name order by name"
    )
    table = recording.table("slices", ranks=1).to_pylist()
    names = sorted({row["name"] for row in table})
    assert result.to_pylist() == [
        {
            "name": name,
            "n": sum(row["name"] == name for row in table),
            "total": sum(row["dur"] or 0 for row in table if row["name"] == name),
        }
        for name in names
    ]
    assert result.schema.field("total").type == pa.int64()


@pytest.mark.parametrize(
    "query",
    [
        "select 1;",
        "SELECT 1 -- with a remark",
        "with s as (select * from slices) select count(*) from s",
        "with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select sum(n) from t",
        "from slices select count(*)",
        "values (1), (2)",
        "describe slices",
        "summarize slices",
        "select * from range(3)",
        "select unnest([1, 2])",
        "select json_extract(args, '$.n') from slices",
        "select (select max(ts) from Slices), row_number() over (order by ts) from SLICES",
        "select a.ts from slices a asof join slices b on a.ts >= b.ts",
        "select * from main.slices",
        'select "name" from "slices"',
    ],
)
def test_selects_of_every_kind_run(recording: Recording, query: str) -> None:
    assert recording.sql(query).num_columns >= 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        # Not one SELECT.
        ("", "holds 0 statements"),
        ("select 1; select 2", "holds 2 statements"),
        ("select 1; drop view slices", "holds 2 statements"),
        ("copy slices to 'stolen.parquet'", "this is COPY"),
        ("copy (select 1) to '/tmp/x.csv'", "this is COPY"),
        ("create table x as select 1", "this is CREATE"),
        ("insert into slices select * from slices", "this is INSERT"),
        ("delete from slices", "this is DELETE"),
        ("update slices set ts = 0", "this is UPDATE"),
        ("drop view slices", "this is DROP"),
        ("attach '/tmp/x.db'", "this is ATTACH"),
        ("export database '/tmp/x'", "this is EXPORT"),
        ("install httpfs", "this is LOAD"),
        ("load httpfs", "this is LOAD"),
        ("set memory_limit = '100GB'", "this is SET"),
        ("reset memory_limit", "this is"),
        ("pragma database_list", "this is PRAGMA|no table"),
        ("call pragma_version()", "this is CALL"),
        ("explain select 1", "this is EXPLAIN"),
        ("prepare p as select 1", "this is PREPARE"),
        ("begin transaction", "this is TRANSACTION"),
        ("checkpoint", "this is"),
        ("vacuum", "this is VACUUM"),
        ("pivot slices on name using count(*)", "this is MULTI|holds 2 statements"),
        ("show tables", "SHOW is not supported"),
        # Other files.
        ("select * from '/etc/passwd'", "no table '/etc/passwd'"),
        ("select * from 'other.parquet'", "no table 'other.parquet'"),
        ("select * from read_csv('/etc/passwd')", r"read_csv\(\) is refused"),
        ("select * from \"read_csv\"/**/('/etc/passwd')", r"read_csv\(\) is refused"),
        ("select * from READ_TEXT('/etc/passwd')", r"read_text\(\) is refused"),
        ("select * from read_blob('/etc/passwd')", r"read_blob\(\) is refused"),
        ("select * from read_json_auto('/etc/passwd')", r"read_json_auto\(\) is refused"),
        ("select * from read_parquet('x.parquet')", r"read_parquet\(\) is refused"),
        ("select * from parquet_metadata('x.parquet')", r"parquet_metadata\(\) is refused"),
        ("select * from parquet_scan('x.parquet')", r"parquet_scan\(\) is refused"),
        ("select * from sniff_csv('/etc/passwd')", r"sniff_csv\(\) is refused"),
        ("select * from glob('/*')", r"glob\(\) is refused"),
        ("select (select count(*) from read_text('/etc/passwd'))", r"read_text\(\) is refused"),
        ("with x as (from read_text('/etc/passwd')) select * from x", r"read_text\(\) is refused"),
        (
            "select * from slices where name in (select content from read_text('/etc/passwd'))",
            r"read_text\(\) is refused",
        ),
        ("select * from query('select 1')", r"query\(\) is refused"),
        ("select * from query_table('slices')", r"query_table\(\) is refused"),
        # The environment and the settings.
        ("select getenv('HOME')", r"getenv\(\) is refused"),
        ("select current_setting('memory_limit')", r"current_setting\(\) is refused"),
        ("select * from duckdb_settings()", r"duckdb_settings\(\) is refused"),
        ("select * from duckdb_secrets()", r"duckdb_secrets\(\) is refused"),
        ("select * from information_schema.tables", "information_schema.tables is outside the recording"),
        ("select * from duckdb_views", "no table 'duckdb_views'"),
        ("select * from sqlite_master", "no table 'sqlite_master'"),
        # What is merely wrong.
        ("selec 1", "cannot be parsed"),
        ("select nothing from slices", "the query failed"),
        ("select no_such_function(1)", "the query failed"),
        ("select * from slicse", "no table 'slicse'"),
    ],
)
def test_what_is_refused_says_why(recording: Recording, query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        recording.sql(query)


def test_a_variable_of_the_caller_is_no_table(recording: Recording) -> None:
    private = pa.table({"secret": [1]})
    with pytest.raises(QueryError, match="no table 'private'"):
        recording.sql("select * from private")
    assert private.num_rows == 1


CLOSED = [
    "copy (select 1) to '{folder}/stolen.csv'",
    "select * from read_csv('{folder}/private.csv')",
    "select * from '{folder}/private.csv'",
    "attach '{folder}/x.db'",
    "install httpfs",
    "set enable_external_access = true",
    "set allowed_paths = ['{folder}/private.csv']",
    "set lock_configuration = false",
    "set memory_limit = '100GB'",
    "set temp_directory = '{folder}'",
    "export database '{folder}/dump'",
]


@pytest.mark.parametrize("statement", CLOSED)
def test_the_database_itself_is_closed_even_to_what_the_parser_would_refuse(
    recording: Recording, tmp_path: Path, statement: str
) -> None:
    (tmp_path / "private.csv").write_text("a,b\n1,2\n")
    with sql._database("100MB") as connection:
        files = sql._make_view(connection, recording, TABLES["slices"])
        sql._close_off(connection, files)
        assert connection.sql("select count(*) from slices").fetchall() == [(800,)]
        with pytest.raises(duckdb.Error):
            connection.execute(statement.format(folder=tmp_path)).fetchall()
    assert [entry.name for entry in tmp_path.iterdir()] == ["private.csv"]


def test_a_query_that_runs_too_long_is_stopped(recording: Recording) -> None:
    started = time.monotonic()
    with pytest.raises(QueryError, match=r"stopped after 0\.3 s.*Narrow it"):
        recording.sql("select sum(a.range * b.range) from range(1000000000) a, range(1000000) b", timeout_s=0.3)
    assert time.monotonic() - started < 10


def test_a_query_that_needs_too_much_memory_fails_and_spills_nothing(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError, match="out of memory"):
        recording.sql("select list(range) from range(100000000)", memory_limit="50MB")
    assert not list(tmp_path.iterdir())


def test_a_row_limit_cuts_and_says_so(recording: Recording) -> None:
    cut = recording.sql("select ts from slices order by ts -- all of them", row_limit=10)
    whole = recording.sql("select ts from slices order by ts")
    assert cut.column("ts").to_pylist() == whole.column("ts").to_pylist()[:10]
    assert (cut.schema.metadata or {}).get(sql.TRUNCATED_KEY) == b"true"
    assert sql.TRUNCATED_KEY not in (recording.sql("select 1", row_limit=10).schema.metadata or {})


def test_derived_tables_can_be_queried_beside_the_recordings(recording: Recording) -> None:
    stalls = pa.table({"rank": [0], "dur": [7]})
    query = "select s.dur, count(*) n from stalls s join slices using (rank) group by all"
    assert recording.sql(query, also={"stalls": stalls}).to_pylist() == [{"dur": 7, "n": 400}]


def test_a_sum_beyond_64_bits_stays_exact(recording: Recording) -> None:
    result = recording.sql("select sum(x) total from (values (9223372036854775807), (9223372036854775807)) t(x)")
    assert int(result.to_pylist()[0]["total"]) == 2**64 - 2


def test_a_damaged_file_is_left_out(tmp_path: Path) -> None:
    rows = RecordingWriter.create(tmp_path).rank(0)
    for part in range(2):
        rows.append("slices", slices(10, first=10 * part))
        rows.flush()
    files = open_recording(tmp_path).files("slices")
    files[0].write_bytes(files[0].read_bytes()[:100])
    assert open_recording(tmp_path).sql("select count(*) n from slices").to_pylist() == [{"n": 10}]


def test_a_setting_that_duckdb_does_not_take_is_an_error_of_ours(recording: Recording) -> None:
    with pytest.raises(QueryError, match="settings were refused"):
        recording.sql("select 1", memory_limit="a lot")
