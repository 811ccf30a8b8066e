"""What two coverage runs of the same models say of two versions of a backend: newly supported, newly broken, changed.

Outcomes, agreement, fallbacks, graph breaks and recompilations are compared exactly. Times of two single runs prove
nothing about the code: one is told as changed where it differs by more than a margin and the ranges of the steady
blocks do not overlap, and it is told as the difference of these two runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MARGIN_FRAC = 0.1
"""Steady steps that differ by no more than this are not told."""

COMPILE_MARGIN_FRAC = 0.3
"""The same for compile times, which are measured once a run."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of a model between the two runs.

    Attributes:
        model: Its name.
        what: eager, compiled, agreement, fallback, graph break, recompilation, step time, compile time.
        base: How it was, in words or as a number.
        new: How it is.
        unit: ``ns`` where base and new are times, "" where they are words.
        direction: better, worse, or "" where neither can be said.
    """

    model: str
    what: str
    base: str | int | None
    new: str | int | None
    unit: str = ""
    direction: str = ""


@dataclass(frozen=True, slots=True)
class CoverageComparison:
    """The differences of two coverage runs.

    Attributes:
        newly_supported: What completed or agreed with the CPU in the new run only.
        newly_broken: What did in the base only.
        changed: Everything else.
        unchanged: Models without a difference.
        added: Models that only the new run has.
        removed: Models that only the base has.
        environment: ``(what, base, new)`` of what the runs themselves differ in.
    """

    newly_supported: tuple[Change, ...]
    newly_broken: tuple[Change, ...]
    changed: tuple[Change, ...]
    unchanged: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    environment: tuple[tuple[str, str | None, str | None], ...]


def compare_coverage(base: Row, new: Row, *, margin_frac: float = MARGIN_FRAC) -> CoverageComparison:
    """Compares two documents of ``read_coverage``.

    Args:
        base: The earlier one.
        new: The later one.
        margin_frac: The least relative difference of steady steps to tell.
    """
    before = {row["name"]: row for row in base["rows"]}
    after = {row["name"]: row for row in new["rows"]}
    support: list[Change] = []
    changed: list[Change] = []
    unchanged = []
    for name in (name for name in after if name in before):
        supported = list(_support(name, before[name], after[name]))
        differences = list(_differences(name, before[name], after[name], margin_frac))
        support += supported
        changed += differences
        if not supported and not differences:
            unchanged.append(name)
    return CoverageComparison(
        newly_supported=tuple(one for one in support if one.direction == "better"),
        newly_broken=tuple(one for one in support if one.direction == "worse"),
        changed=tuple(changed) + tuple(one for one in support if not one.direction),
        unchanged=tuple(unchanged),
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        environment=tuple(_environment(base, new)),
    )


def _run(row: Row, kind: str) -> Row:
    run = row.get(kind)
    return run if isinstance(run, dict) else {}


def _support(name: str, base: Row, new: Row) -> Iterator[Change]:
    """Changes of what runs, and of what agrees with the CPU."""
    for kind in ("eager", "compiled"):
        was, now = _run(base, kind), _run(new, kind)
        if not was or not now:
            continue
        if was.get("outcome") != now.get("outcome"):
            better, worse = now.get("outcome") == "completed", was.get("outcome") == "completed"
            direction = "better" if better else "worse" if worse else ""
            yield Change(name, kind, _outcome(was), _outcome(now), direction=direction)
        agreed, agrees = _agreement(was), _agreement(now)
        if agreed is not None and agrees is not None and agreed != agrees:
            yield Change(
                name, f"{kind}, agreement", _agreement_words(was), _agreement_words(now),
                direction="better" if agrees else "worse",
            )  # fmt: skip


def _outcome(run: Row) -> str:
    words = str(run.get("outcome"))
    return words if words == "completed" else f"{words} in {run.get('stage')}: {run.get('reason')}"


def _agreement(run: Row) -> bool | None:
    told = (run.get("agreement") or {}).get("agrees")
    return told if isinstance(told, bool) else None


def _agreement_words(run: Row) -> str:
    told = run.get("agreement") or {}
    errors = [told[key] for key in ("outputs", "loss", "gradients") if told.get(key) is not None]
    error = "not finite" if told.get("not_finite") else f"error {max(errors, default=0.0):.1e}"
    return f"{'agrees' if told.get('agrees') else 'differs'} ({error})"


def _differences(name: str, base: Row, new: Row, margin_frac: float) -> Iterator[Change]:
    for kind in ("eager", "compiled"):
        was, now = _run(base, kind), _run(new, kind)
        if was.get("outcome") != "completed" or now.get("outcome") != "completed":
            continue
        yield from _counted(f"{kind}, fallback", name, was.get("fallbacks"), now.get("fallbacks"), _fallback_key)
        yield from _counted("graph break", name, was.get("graph_breaks"), now.get("graph_breaks"), _note_key)
        yield from _counted("recompilation", name, was.get("recompiles"), now.get("recompiles"), _note_key)
        yield from _step_time(name, kind, was, now, margin_frac)
    for kind, what in (("compiled", "cold compile time"), ("warm", "warm compile time")):
        was, now = _run(base, kind), _run(new, kind)
        if was.get("outcome") == "completed" == now.get("outcome"):
            yield from _time(name, what, was.get("compile_ns"), now.get("compile_ns"), COMPILE_MARGIN_FRAC)


def _fallback_key(row: Row) -> str:
    return str(row.get("op"))


def _note_key(row: Row) -> str:
    file = str(row.get("file")).replace("\\", "/").rpartition("/")[2]
    return f"{row.get('reason')} in {file}"


def _counted(
    what: str, name: str, base: list[Row] | None, new: list[Row] | None, key: Callable[[Row], str]
) -> Iterator[Change]:
    """What is new, gone, or happens another number of times. None: not recorded, so nothing can be said."""
    if base is None or new is None:
        return
    was, now = _sums(base, key), _sums(new, key)
    for one in sorted(was.keys() | now.keys()):
        before, after = was.get(one, 0), now.get(one, 0)
        if before != after:
            direction = "worse" if after > before else "better"
            yield Change(name, f"{what}: {one}", f"{before} times", f"{after} times", direction=direction)


def _sums(rows: list[Row], key: Callable[[Row], str]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[key(row)] = sums.get(key(row), 0) + int(row.get("count") or 0)
    return sums


def _step_time(name: str, kind: str, was: Row, now: Row, margin_frac: float) -> Iterator[Change]:
    apart = all(run.get("step_low_ns") and run.get("step_high_ns") for run in (was, now)) and (
        was["step_high_ns"] < now["step_low_ns"] or now["step_high_ns"] < was["step_low_ns"]
    )
    if apart:
        yield from _time(name, f"{kind}, step", was.get("step_ns"), now.get("step_ns"), margin_frac)


def _time(name: str, what: str, base: int | None, new: int | None, margin_frac: float) -> Iterator[Change]:
    if base and new and abs(new - base) > margin_frac * base:
        yield Change(name, what, base, new, unit="ns", direction="worse" if new > base else "better")


def _environment(base: Row, new: Row) -> Iterator[tuple[str, str | None, str | None]]:
    for key in ("device", "device_name", "backend"):
        if base.get(key) != new.get(key):
            yield key.replace("_", " "), base.get(key), new.get(key)
    was, now = base.get("versions") or {}, new.get("versions") or {}
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            yield f"version of {name}", was.get(name), now.get(name)
