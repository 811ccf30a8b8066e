"""JSON on stdout: one document, exact integers, keys in the order in which docs/cli.md lists them."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import click


def print_json(document: Any) -> None:
    """Prints a document; numpy's numbers become plain ones, and what JSON cannot say (NaN) becomes null."""
    click.echo(json.dumps(plain(document), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The value in the types of JSON. Integers stay exact; a NaN or an infinity becomes None."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (Path, bytes)):
        return str(value) if isinstance(value, Path) else value.hex()
    if hasattr(value, "tolist"):  # a numpy scalar or array
        return plain(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return str(value)
