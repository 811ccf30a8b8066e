"""What differs between two sides besides the code: told first, since it may be the whole difference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .run_facts import RunMeasures

Kind = Literal["machine", "recording", "software", "source", "setting"]

_MACHINE = re.compile(r"^(?:device|ranks|host|host_name|platform|backend)$")
_RECORDING = re.compile(r"^(?:recorded_by|settings\..*|with_\w+|record_shapes|profile_memory|versions\.stallscope)$")
_SOFTWARE = re.compile(r"^(?:versions\..*|python|\w*version\w*)$")
_SOURCE = re.compile(r"^git_\w+$")
_UNLIKE = re.compile(
    r"^(?:device|ranks|backend|recorded_by|settings\.detail|with_stack|with_modules|record_shapes|profile_memory)$"
)
"""With these apart, two runs are not of the same thing, or were slowed down by their recording in different ways."""

ABSENT = "(not known)"


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """One fact that differs.

    Attributes:
        name: The fact, as in ``RunMeasures.environment``, or a property of the measurement such as ``unit``.
        kind: What it is about.
        base: Its values on the base side, joined by " | " where its runs differ among themselves.
        new: The same on the new side.
        unlike: Whether it makes the two sides apples and pears: a difference cannot be put down to the code.
    """

    name: str
    kind: Kind
    base: str
    new: str
    unlike: bool


def environment_differences(
    base: Sequence[RunMeasures], new: Sequence[RunMeasures]
) -> tuple[EnvironmentDifference, ...]:
    """Every fact whose values differ between or within the sides: what makes them unlike first, then by name.

    A fact that only one side knows counts as differing only where a difference of it would make the sides unlike.
    """
    names = sorted({name for run in (*base, *new) for name in run.environment})
    rows = [_row(name, *(_values(runs, name) for runs in (base, new))) for name in names]
    rows += [_measured(name, base, new) for name in ("unit", "steps cut by", "rules")]
    found = [row for row in rows if row is not None]
    return tuple(sorted(found, key=lambda row: (not row.unlike, _ORDER.index(row.kind), row.name)))


_ORDER: tuple[Kind, ...] = ("machine", "recording", "software", "source", "setting")


def _values(runs: Sequence[RunMeasures], name: str) -> list[str]:
    return sorted({run.environment.get(name, ABSENT) for run in runs})


def _row(name: str, base: list[str], new: list[str]) -> EnvironmentDifference | None:
    unlike = bool(_UNLIKE.match(name))
    if base == new and len(base) == 1:
        return None
    if [ABSENT] in (base, new) and not unlike and _kind(name) not in ("software", "setting", "source"):
        return None
    return EnvironmentDifference(name, _kind(name), " | ".join(base), " | ".join(new), unlike and base != new)


def _kind(name: str) -> Kind:
    for pattern, kind in (
        (_MACHINE, "machine"),
        (_RECORDING, "recording"),
        (_SOFTWARE, "software"),
        (_SOURCE, "source"),
    ):
        if pattern.match(name):
            return kind  # type: ignore[return-value]
    return "setting"


def _measured(name: str, base: Sequence[RunMeasures], new: Sequence[RunMeasures]) -> EnvironmentDifference | None:
    """What the numbers themselves rest on: steps or whole recordings, cut by the device or the host, which rules."""
    texts = []
    for runs in (base, new):
        if name == "unit":
            found = {"steady steps" if run.unit == "step" else "the whole recording" for run in runs}
        elif name == "rules":
            found = {f"version {run.analysis_version}" for run in runs}
        else:
            found = {lane.basis for run in runs for lane in run.lanes if lane.basis}
        texts.append(" | ".join(sorted(found)))
    if texts[0] == texts[1] or not all(texts):
        return None
    return EnvironmentDifference(name, "recording", texts[0], texts[1], True)
