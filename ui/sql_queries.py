"""Queries of the SQL page: run with the limits of ``stallscope query``, few at a time, and also sent as CSV."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import flask
import pyarrow as pa
from pyarrow import csv

from ..profiler.recording.errors import QueryError, StallscopeError
from ..profiler.recording.plain_rows import plain_rows
from ..profiler.recording.sql import TRUNCATED_KEY
from .served import Served

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

TIMEOUT_S = 30.0
"""As ``stallscope query``."""

ROW_LIMITS = (100, 1_000, 10_000)
CSV_ROW_LIMIT = 1_000_000
MOST_TEXT = 2_000
"""The longest query, in characters: it has to fit into an address (``addresses.LONGEST``), however it is escaped."""

_AT_ONCE = threading.BoundedSemaphore(2)


def run(recording: Recording, text: str, row_limit: int) -> tuple[pa.Table, bool]:
    """The rows of a query, and whether there were more than the limit.

    Raises:
        QueryError: As ``Recording.sql``; and where it is too long, or two queries run already.
    """
    if len(text) > MOST_TEXT:
        raise QueryError(f"the query is longer than {MOST_TEXT:,} characters.", hint="Use `stallscope query`.")
    with _turn():
        result = recording.sql(text, timeout_s=TIMEOUT_S, row_limit=row_limit)
    return result, TRUNCATED_KEY in (result.schema.metadata or {})


def plain_column(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as JSON and a table can hold them: 64-bit numbers beyond 2**53 and lists as text."""

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return value if abs(value) < 1 << 53 else str(value)
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else str(value)
        return str(value)

    return [plain(value) for value in column.to_pylist()]


def csv_route(served: Mapping[str, Served]) -> flask.Blueprint:
    """The route ``/data/<recording>/query.csv?sql=...``: the result of a query as a file."""
    blueprint = flask.Blueprint("query", __name__, url_prefix="/data/<key>")

    @blueprint.get("/query.csv")
    def query_csv(key: str) -> flask.Response:
        asked = served.get(key)
        if asked is None:
            flask.abort(404, "there is no such recording")
        try:
            result, _ = run(asked.recording, flask.request.args.get("sql", ""), CSV_ROW_LIMIT)
        except StallscopeError as error:
            flask.abort(400, error.message)
        response = flask.Response(as_csv(result), mimetype="text/csv")
        response.headers["Content-Disposition"] = 'attachment; filename="query.csv"'
        response.headers["Cache-Control"] = "no-store"
        return response

    return blueprint


def as_csv(result: pa.Table) -> bytes:
    """The rows with a heading; null is an empty field, a list a JSON array."""
    sink = io.BytesIO()
    csv.write_csv(plain_rows(result) if result.num_columns else pa.table({}), sink)
    return sink.getvalue()


@contextmanager
def _turn() -> Iterator[None]:
    if not _AT_ONCE.acquire(timeout=TIMEOUT_S):
        raise QueryError("two other queries are still running.", hint="Try again when they are done.")
    try:
        yield
    finally:
        _AT_ONCE.release()
