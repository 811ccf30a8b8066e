"""The schema says what it must, and the page about it is current."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from stallscope.profiler.recording.reader import open_recording
from stallscope.profiler.recording.schema import TABLES, Column, Table
from stallscope.profiler.recording.schema_page import main, schema_page
from stallscope.profiler.recording.writer import RecordingWriter

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schema.md"
COLUMNS = [(table, column) for table in TABLES.values() for column in table.columns]


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == schema_page(), "run python -m stallscope.profiler.recording.schema_page"


def test_check_tells_a_current_page_from_an_old_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "schema.md"
    assert main([str(page), "--check"]) == 1
    assert main([str(page)]) == 0
    assert main([str(page), "--check"]) == 0
    page.write_text(page.read_text() + "by hand\n")
    assert main([str(page), "--check"]) == 1
    assert "is not current" in capsys.readouterr().err


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[f"{table.name}.{column.name}" for table, column in COLUMNS])
def test_every_column_says_what_it_means(table: Table, column: Column) -> None:
    assert column.meaning.endswith(".")
    if column.name in ("ts", "dur") or column.name.endswith("_ns"):
        assert (column.type, column.unit) == (pa.int64(), "ns")
    if column.name.endswith("bytes"):
        assert column.unit == "bytes"
    if column.name.endswith("_id"):
        assert pa.types.is_integer(column.type) or column.name == "compile_id"


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_tables_are_sorted_by_columns_that_they_have(table: Table) -> None:
    assert table.order
    assert set(table.order) <= set(table.schema.names)


def test_columns_that_refer_to_another_table_name_one_that_exists() -> None:
    for _, column in COLUMNS:
        for target, name in re.findall(r"\((\w+)\.(\w+)\)", column.meaning):
            if target in TABLES:
                assert name in TABLES[target].schema.names, column.meaning


def test_the_queries_on_the_page_run(tmp_path: Path) -> None:
    RecordingWriter.create(tmp_path / "run").rank(0).close()
    queries = re.search(r"## Three queries.*?\n\n(.*?)\n\nRun them", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert queries is not None
    texts = queries[1].split("\n\n")
    assert len(texts) == 3
    for text in texts:
        assert open_recording(tmp_path / "run").sql(text).num_rows == 0
