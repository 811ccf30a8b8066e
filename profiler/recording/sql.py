"""SQL over a recording's tables, by DuckDB, with no way out of the recording.

Two defences, each enough on its own for most attacks. First the query is parsed and its syntax tree read: one SELECT,
whose tables are the recording's and whose table functions come from a short list. Then the database itself is closed:
it lives in memory, the tables are views made beforehand, only the files under them may be opened, nothing may be
spilled to disk, and the settings are locked. A timer interrupts a query that runs too long.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from .errors import FormatError, QueryError
from .parquet_files import footer
from .schema import TABLES, Table

if TYPE_CHECKING:
    from .reader import Recording

TRUNCATED_KEY = b"stallscope.truncated"
"""In the metadata of a result's schema: there were more rows than the row limit."""

_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "repeat", "json_each", "json_tree"})

_REFUSED_FUNCTIONS = re.compile(
    r"getenv|getvariable|current_setting|current_(?:database|schema|user|role|catalog)s?|session_user|user"
    r"|query|query_table|json_(?:de)?serialize_\w+|json_execute_\w+|write_log|nextval|currval|read_\w+|glob|\w*_scan"
    r"|pg_\w+|duckdb_\w+|add_parquet_key|which_secret|txid_current|in_search_path|has_\w+_privilege",
    re.IGNORECASE,
)
"""Functions that read settings, the environment or files, keep state, or run text as SQL."""


def run_query(
    recording: Recording,
    query: str,
    *,
    timeout_s: float,
    memory_limit: str,
    row_limit: int | None,
    also: Mapping[str, pa.Table] | None = None,
) -> pa.Table:
    """The result of one SELECT; see ``Recording.sql``.

    Raises:
        QueryError: It is not a single SELECT, reaches outside the recording, fails, or exceeds a limit.
    """
    derived = dict(also or {})
    with _database(memory_limit) as connection:
        statement = _single_select(connection, query)
        used = _tables_used(_syntax_tree(connection, statement), [*TABLES, *derived])
        files: list[Path] = []
        for name in sorted(used):
            if name in derived:
                connection.register(name, derived[name])
            else:
                files += _make_view(connection, recording, TABLES[name])
        _close_off(connection, files)
        return _fetch(connection, statement, timeout_s, row_limit)


@contextmanager
def _database(memory_limit: str) -> Iterator[duckdb.DuckDBPyConnection]:
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "temp_directory": "",
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    try:
        connection = duckdb.connect(":memory:", config=config)
    except duckdb.Error as error:
        raise QueryError(f"the query's settings were refused: {_first_line(error)}.") from error
    try:
        yield connection
    finally:
        connection.close()


def _single_select(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """The query without its semicolon."""
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise QueryError(f"the query cannot be parsed: {_first_line(error)}.") from error
    if len(statements) != 1:
        raise QueryError(f"a query is one SELECT; this text holds {len(statements)} statements.")
    kind = statements[0].type.name
    if kind != "SELECT":
        hint = " (PIVOT with its values listed, or conditional sums, can be written as a SELECT)"
        raise QueryError(f"a query is one SELECT; this is {kind}{hint if kind == 'MULTI' else ''}.")
    return str(statements[0].query).strip().rstrip(";")


def _syntax_tree(connection: duckdb.DuckDBPyConnection, statement: str) -> Any:
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    tree = json.loads(rows[0][0])
    if tree.get("error"):
        raise QueryError(f"this kind of query is not supported: {tree.get('error_message')}")
    return tree


def _tables_used(tree: Any, known: Iterable[str]) -> set[str]:
    """The tables of the recording that the query reads.

    Raises:
        QueryError: It reads something else, or calls a function that reaches outside.
    """
    by_lower = {name.lower(): name for name in known}
    named: list[str] = []
    defined: set[str] = set()
    for node in _nodes(tree):
        if node.get("type") == "BASE_TABLE":
            if node.get("schema_name") not in ("", "main", None) or node.get("catalog_name"):
                raise QueryError(f"{node.get('schema_name')}.{node['table_name']} is outside the recording.")
            named.append(node["table_name"])
        elif node.get("type") == "TABLE_FUNCTION":
            function = str(node.get("function", {}).get("function_name", "")).lower()
            if function not in _TABLE_FUNCTIONS:
                raise QueryError(f"{function}() is refused: a query reads only the tables of the recording.")
        elif node.get("type") == "SHOW_REF" and not node.get("query"):
            raise QueryError("SHOW is not supported.", hint=f"The tables are {', '.join(TABLES)}.")
        if "function_name" in node and _REFUSED_FUNCTIONS.fullmatch(str(node["function_name"])):
            raise QueryError(f"{node['function_name']}() is refused: it reaches outside the recording.")
        defined.update(str(entry["key"]).lower() for entry in node.get("cte_map", {}).get("map", []))
    unknown = [name for name in named if name.lower() not in by_lower and name.lower() not in defined]
    if unknown:
        raise QueryError(f"the recording has no table {unknown[0]!r}; it has {', '.join(by_lower.values())}.")
    return {by_lower[name.lower()] for name in named if name.lower() in by_lower}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in the tree."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _make_view(connection: duckdb.DuckDBPyConnection, recording: Recording, table: Table) -> list[Path]:
    """Makes the table's view, with every column of the schema; returns the files under it."""
    if table.key:
        # Small, and described once for each segment: the reader knows which rows are the same thing.
        connection.register(table.name, recording.table(table.name))
        return []
    files = [path for path in recording.files(table.name) if _has_footer(path)]
    if not files:
        connection.register(table.name, table.schema.empty_table())
        return []
    listed = ", ".join(_quoted(str(path)) for path in files)
    source = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    try:
        present = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        columns = ", ".join(
            f'"{field.name}"' if field.name in present else f'NULL::{_sql_type(field.type)} AS "{field.name}"'
            for field in table.schema
        )
        connection.execute(f'CREATE VIEW "{table.name}" AS SELECT {columns} FROM {source}')
    except duckdb.Error as error:
        raise QueryError(f"table {table.name} cannot be read: {_first_line(error)}.") from error
    return files


def _close_off(connection: duckdb.DuckDBPyConnection, files: Iterable[Path]) -> None:
    listed = ", ".join(_quoted(str(path)) for path in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _fetch(connection: duckdb.DuckDBPyConnection, statement: str, timeout_s: float, row_limit: int | None) -> pa.Table:
    limited = statement if row_limit is None else f"SELECT * FROM (\n{statement}\n) LIMIT {int(row_limit) + 1}"
    expired = threading.Event()

    def interrupt() -> None:
        expired.set()
        connection.interrupt()

    timer = threading.Timer(timeout_s, interrupt)
    timer.start()
    try:
        result = _with_plain_integers(connection.sql(limited).to_arrow_table())
    except duckdb.InterruptException as error:
        if not expired.is_set():
            raise
        raise QueryError(
            f"the query was stopped after {timeout_s:g} s.", hint="Narrow it, or allow more time."
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"the query ran out of memory: {_first_line(error)}.", hint="Narrow it.") from error
    except duckdb.Error as error:
        raise QueryError(f"the query failed: {_first_line(error)}") from error
    finally:
        timer.cancel()
    if row_limit is not None and result.num_rows > row_limit:
        metadata = (result.schema.metadata or {}) | {TRUNCATED_KEY: b"true"}
        return result.slice(0, row_limit).replace_schema_metadata(metadata)
    return result


def _with_plain_integers(result: pa.Table) -> pa.Table:
    """The same with int64 where a column is DuckDB's 128-bit integer, as sums are, and its values fit."""
    for position, field in enumerate(result.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                result = result.set_column(position, field.name, result.column(position).cast(pa.int64()))
            except pa.ArrowInvalid:
                # Too large for 64 bits: stays exact as a decimal.
                continue
    return result


def _has_footer(path: Path) -> bool:
    try:
        return bool(footer(path))
    except FormatError:
        return False


def _sql_type(arrow: pa.DataType) -> str:
    if pa.types.is_dictionary(arrow):
        return _sql_type(arrow.value_type)
    if pa.types.is_list(arrow):
        return f"{_sql_type(arrow.value_type)}[]"
    names = {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.uint64(): "UBIGINT", pa.float64(): "DOUBLE"}
    return (names | {pa.bool_(): "BOOLEAN", pa.string(): "VARCHAR"})[arrow]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
