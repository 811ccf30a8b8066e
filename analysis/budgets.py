"""What a run may cost at most: budgets, from a small TOML file or from options.

A budget has a value, a margin, and what to do where it cannot be told whether it was kept. The value is an amount of
its own (``80ms``) or, where none is given, the baseline's; the margin is what may come on top (``+5%`` is the
baseline's value and 5 % more).

    [gate]
    on_unknown = "warn"         # for every budget that does not say: fail (the default) or warn
    run_sd = "2%"               # how much the same code differs from run to run, where too few runs show it

    [budgets]
    step_time = "+5%"
    peak_memory = { value = "30GiB", margin = "2%", on_unknown = "fail" }
    recompiles = 0
    fallbacks = [{ op = "aten::nan_to_num", reason = "no kernel yet; once per epoch" }]
    stall_share = { input = "5%", cpu_fallback = "+1%" }
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from ..profiler.recording.errors import FormatError, UsageError
from .causes import CAUSES

Kind = Literal["time", "size", "count", "share", "ops"]
OnUnknown = Literal["fail", "warn"]


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that a budget can be about.

    Attributes:
        kind: What its amounts are: ``time`` in ns, ``size`` in bytes, ``count``, ``share`` of the step in 0..1, or
            ``ops``, a list.
        timed: Whether it differs from run to run of the same code, so that only a spread between runs makes it certain.
        words: What it is, for a reader.
    """

    kind: Kind
    timed: bool
    words: str


MEASURES: dict[str, Measure] = {
    "step_time": Measure("time", True, "step time"),
    "step_time_p95": Measure("time", True, "step time, 95th percentile"),
    "peak_memory": Measure("size", False, "peak device memory"),
    "cold_start": Measure("time", True, "cold start"),
    "compiles": Measure("count", False, "compilations"),
    "recompiles": Measure("count", False, "recompilations"),
    "fallbacks": Measure("ops", False, "ops on the CPU"),
    "stall_share": Measure("share", True, "share of stalls"),
    "bytes_moved": Measure("size", False, "bytes moved each step"),
    "communication_waiting": Measure("time", True, "waiting for peers each step"),
    "losses": Measure("count", False, "events missing from the recording"),
}
"""The names of budgets. ``stall_share`` has one budget for each cause (``analysis.causes``)."""

DEFAULTS: dict[str, object] = {"step_time": "+5%", "peak_memory": "+5%", "recompiles": "+0", "fallbacks": "baseline"}
"""What holds where nobody says anything else."""

_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000}
_BYTES = {"B": 1} | {f"{p}B": 1000**n for n, p in enumerate(("k", "M", "G", "T"), 1)} | {"KB": 1000}
_BYTES |= {f"{p}iB": 1024**n for n, p in enumerate(("K", "M", "G", "T"), 1)}
_UNITS: dict[Kind, dict[str, int]] = {"time": _NS, "size": _BYTES, "count": {"": 1}}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ%]*)")
_EXAMPLES: dict[Kind, str] = {
    "time": '"+5%" (over the baseline) or "80ms"',
    "size": '"+5%" (over the baseline) or "30GiB"',
    "count": '"+0" (over the baseline) or 2',
    "share": '"+1%" (of the step, over the baseline) or "5%"',
    "ops": '"none", "baseline", or a list of {op = ..., reason = ...}',
}


@dataclass(frozen=True, slots=True)
class AllowedFallback:
    """An op that may run on the CPU, and why that is accepted."""

    op: str
    reason: str


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget.

    Attributes:
        name: A key of ``MEASURES``.
        cause: The cause of a ``stall_share``; "" for the others.
        value: The amount, in ns, bytes, one, or a share; None: the baseline's.
        margin_frac: What may come on top, as a share of the value.
        margin_amount: What may come on top, in the value's unit.
        on_unknown: Whether the gate fails where it cannot be told if the budget was kept, or only warns.
        allowed: For ``fallbacks``: the ops that are accepted.
    """

    name: str
    cause: str = ""
    value: float | None = None
    margin_frac: float = 0.0
    margin_amount: float = 0.0
    on_unknown: OnUnknown = "fail"
    allowed: tuple[AllowedFallback, ...] = ()

    @property
    def key(self) -> str:
        """Its name, with the cause of a share: ``stall_share.input``."""
        return f"{self.name}.{self.cause}" if self.cause else self.name

    @property
    def measure(self) -> Measure:
        """What it is about."""
        return MEASURES[self.name]

    @property
    def words(self) -> str:
        """What it is about, for a reader."""
        return f"{self.measure.words}: {self.cause}" if self.cause else self.measure.words

    def limit(self, base: float | None) -> float | None:
        """The most that is allowed, in the value's unit; None where it takes a baseline and there is none."""
        value = base if self.value is None else self.value
        return None if value is None else value * (1 + self.margin_frac) + self.margin_amount


@dataclass(frozen=True, slots=True)
class Budgets:
    """All budgets of a gate.

    Attributes:
        budgets: The budgets, in the order in which they were written.
        run_sd_frac: How much the same code differs from run to run, as a share; None where nobody said.
    """

    budgets: tuple[Budget, ...]
    run_sd_frac: float | None = None

    def with_others(self, others: Budgets) -> Budgets:
        """These budgets with those of ``others`` in place of, or after, the ones of the same name."""
        merged = {budget.key: budget for budget in self.budgets} | {budget.key: budget for budget in others.budgets}
        return Budgets(tuple(merged.values()), self.run_sd_frac if others.run_sd_frac is None else others.run_sd_frac)

    def with_on_unknown(self, on_unknown: OnUnknown) -> Budgets:
        """The same budgets, all of which fail or warn where they cannot be told."""
        return replace(self, budgets=tuple(replace(budget, on_unknown=on_unknown) for budget in self.budgets))


def read_budgets(path: Path) -> Budgets:
    """The budgets of a TOML file.

    Raises:
        FormatError: The file cannot be read as TOML.
        UsageError: It names something that there is not, or an amount cannot be one.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FormatError(f"{path} cannot be read as TOML: {error}.", hint="docs/gate.md has an example.") from error
    try:
        _known(document, ("gate", "budgets"), "table")
        general, budgets = _table(document, "gate"), _table(document, "budgets")
        _known(general, ("on_unknown", "run_sd"), "key of [gate]")
        run_sd = general.get("run_sd")
        return parse_budgets(
            budgets,
            on_unknown=_on_unknown(general.get("on_unknown", "fail")),
            run_sd_frac=None if run_sd is None else parse_share(run_sd),
        )
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error


def parse_budgets(
    entries: Mapping[str, object], *, on_unknown: OnUnknown = "fail", run_sd_frac: float | None = None
) -> Budgets:
    """Budgets from names and what stands behind them in TOML, or in an option.

    Args:
        entries: Name -> a text such as ``+5%``, a number, a table with ``value``, ``margin`` and ``on_unknown``, or for
            ``stall_share`` a table of causes; ``stall_share.input`` names one, too.
        on_unknown: For a budget that does not say.
        run_sd_frac: How much the same code differs from run to run.

    Raises:
        UsageError: There is no such name or cause, or an amount cannot be one.
    """
    found: list[Budget] = []
    for name, entry in entries.items():
        name, _, cause = name.partition(".")
        _known([name], MEASURES, "budget")
        if name == "stall_share" and not cause:
            if not isinstance(entry, Mapping):
                raise _wrong(name, entry, 'a table of causes, such as { input = "5%" }')
            found += [_budget(name, cause, each, on_unknown) for cause, each in entry.items()]
        else:
            found.append(_budget(name, cause, entry, on_unknown))
    return Budgets(tuple(found), run_sd_frac)


def _budget(name: str, cause: str, entry: object, on_unknown: OnUnknown) -> Budget:
    if cause or name == "stall_share":
        if name != "stall_share":
            raise UsageError(f"{name} has no parts, so '{name}.{cause}' is no budget.")
        _known([cause], CAUSES, "cause")
    budget = Budget(name, cause, on_unknown=on_unknown)
    kind = budget.measure.kind
    if isinstance(entry, Mapping):
        _known(entry, ("value", "margin", "on_unknown"), f"key of {budget.key}")
        if "on_unknown" in entry:
            budget = replace(budget, on_unknown=_on_unknown(entry["on_unknown"]))
        if kind == "ops":
            return _ops(budget, entry.get("value", "baseline"))
        if "value" in entry:
            budget = replace(budget, value=_amount(budget.key, kind, entry["value"]))
        return _with_margin(budget, entry["margin"]) if "margin" in entry else budget
    if kind == "ops":
        return _ops(budget, entry)
    if isinstance(entry, str) and entry.strip().startswith("+"):
        return _with_margin(budget, entry.strip()[1:])
    if entry == "baseline":
        return budget
    return replace(budget, value=_amount(budget.key, kind, entry))


def _with_margin(budget: Budget, entry: object) -> Budget:
    """The margin: a share of the value where it ends in %, except for shares of the step, where it is just added."""
    kind = budget.measure.kind
    text = entry.strip().removeprefix("+") if isinstance(entry, str) else entry
    if kind != "share" and isinstance(text, str) and text.endswith("%"):
        return replace(budget, margin_frac=parse_share(text))
    return replace(budget, margin_amount=_amount(budget.key, kind, text))


def _ops(budget: Budget, entry: object) -> Budget:
    """Which ops may fall back: none (value 0), those of the baseline, or a list, each with its reason."""
    if entry in ("baseline", "+0"):
        return budget
    if entry in ("none", 0) and not isinstance(entry, bool):
        return replace(budget, value=0)
    if not isinstance(entry, Iterable) or isinstance(entry, str | Mapping):
        raise _wrong(budget.key, entry, _EXAMPLES["ops"])
    allowed = []
    for each in entry:
        op, reason = (each.get("op"), each.get("reason")) if isinstance(each, Mapping) else (each, None)
        if not isinstance(op, str) or not isinstance(reason, str) or not reason.strip():
            raise UsageError(
                f"fallbacks: {each!r} is not an op with the reason why it is accepted.",
                hint='Write { op = "aten::nan_to_num", reason = "no kernel yet" }.',
            )
        allowed.append(AllowedFallback(op, reason.strip()))
    return replace(budget, value=0, allowed=tuple(allowed))


def _amount(name: str, kind: Kind, entry: object) -> float:
    """An amount in its unit: whole ns, bytes or counts, or a share in 0..1."""
    if kind == "share":
        return parse_share(entry)
    units = _UNITS[kind]
    if isinstance(entry, int) and not isinstance(entry, bool) and (kind == "count" or entry == 0):
        entry = str(entry) if kind == "count" else f"0{next(iter(units))}"
    match = _AMOUNT.fullmatch(entry.strip()) if isinstance(entry, str) else None
    if match is None or match[2] not in units:
        raise _wrong(name, entry, _EXAMPLES[kind])
    exact = Decimal(match[1]) * units[match[2]]
    if kind == "count" and exact != exact.to_integral_value():
        raise _wrong(name, entry, _EXAMPLES[kind])
    return int(exact)


def parse_share(entry: object) -> float:
    """A share: ``5%``, or a number in 0..1.

    Raises:
        UsageError: It is none.
    """
    match = _AMOUNT.fullmatch(entry.strip()) if isinstance(entry, str) else None
    if match and match[2] == "%":
        return float(Decimal(match[1]) / 100)
    if isinstance(entry, int | float) and not isinstance(entry, bool) and math.isfinite(entry) and 0 <= entry <= 1:
        return float(entry)
    raise UsageError(f"{entry!r} is not a share such as 5% or 0.05.")


def _on_unknown(entry: object) -> OnUnknown:
    if entry == "fail":
        return "fail"
    if entry == "warn":
        return "warn"
    raise _wrong("on_unknown", entry, '"fail" or "warn"')


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, object]:
    found = document.get(name, {})
    if not isinstance(found, Mapping):
        raise UsageError(f"{name} is not a table.", hint=f"Write [{name}] on a line of its own.")
    return found


def _known(words: Iterable[str], known: Iterable[str], what: str) -> None:
    names = list(known)
    for word in words:
        if word not in names:
            near = difflib.get_close_matches(word, names, n=1)
            there = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}."
            raise UsageError(f"no {what} is called '{word}'.", hint=there)


def _wrong(name: str, entry: object, expected: str) -> UsageError:
    return UsageError(f"{name}: {entry!r} cannot be its value; expected {expected}.")
