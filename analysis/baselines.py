"""A baseline as one small file: the measures of its runs without tables, and the places of the one in the middle.

The file is JSON of a few kB a run, meant to be committed beside the code. It holds names of files, functions and ops,
and versions of software; no source text and no host's environment beyond what a recording keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ..profiler.recording.errors import FormatError
from .gate_places import Place
from .run_facts import RunMeasures

FORMAT = "stallscope baseline"
FORMAT_VERSION = 1
LARGEST_BYTES = 64 << 20
"""No baseline is as large: whoever names such a file meant another."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What new runs are held against.

    Attributes:
        format: "stallscope baseline".
        version: Version of this layout.
        places: Where one of the runs spends what budgets are about; empty where that is not known.
        runs: The runs, in the order in which they were made.
    """

    format: str
    version: int
    places: tuple[Place, ...]
    runs: tuple[RunMeasures, ...]


def baseline_of(runs: Sequence[RunMeasures], places: Sequence[Place]) -> Baseline:
    """A baseline from measured runs; tables of kernels, ops and lines are left out."""
    kept = tuple(replace(run, kernels=(), ops=(), lines=()) for run in runs)
    return Baseline(FORMAT, FORMAT_VERSION, tuple(places), kept)


def baseline_text(baseline: Baseline) -> str:
    """The file: JSON, one value a line, so that a change of it can be read in a review."""
    return msgspec.json.format(msgspec.json.encode(baseline), indent=1).decode() + "\n"


def is_baseline_file(path: Path) -> bool:
    """Whether a file is a baseline, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{FORMAT}"'.encode() in file.read(64)


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        FormatError: It is none, or a newer version wrote it.
    """
    again = "Write it again with `stallscope gate RUN... --write-baseline FILE`."
    if path.stat().st_size > LARGEST_BYTES:
        raise FormatError(f"{path} is larger than any baseline.", hint=again)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not a baseline: {error}.", hint=again) from None
    if found.format != FORMAT or found.version != FORMAT_VERSION:
        raise FormatError(f"{path} has version {found.version}; expected {FORMAT_VERSION}.", hint=again)
    return found
