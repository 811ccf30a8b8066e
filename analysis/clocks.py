"""How far the clocks of the ranks are apart, from the ends of the collectives that they took part in together.

A collective in which every rank waits for every other (an all-reduce, say) ends on all of them at nearly the same
moment, so the stamps of its end tell how the clocks stand to each other. What is fitted per rank is what must be added
to its clock: nothing, an offset, an offset with a drift, or a line with bends, each by medians, so that a few ends that
do not belong cannot pull it away. A richer form is taken only where it halves the error, and a correction is never made
where the clocks already agree as well as the ends can tell.

The error that is stated is how far the ends disagree after the correction. It cannot show a rank that ends its part
always a little later than the others: that looks like a clock that is ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from .collective_parts import CollectiveParts, collective_parts
from .nesting import Ints
from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

Floats = npt.NDArray[np.float64]
Form = Literal["none", "offset", "drift", "bends"]

SYNCHRONIZING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
"""Kinds that no rank can leave before the last one has entered."""

LARGEST_DRIFT = 500e-6
"""Clocks that a time service steers differ by no more than this (NTP slews by at most 500 ppm)."""

_MOST_MATCHES = 2000
_MOST_PEERS = 9
_GAIN = 0.5
_EXACT_BELOW = 20
_NEEDED: dict[Form, int] = {"offset": 3, "drift": 20, "bends": 64}
"""Ends from which a form may be fitted: with fewer, a slope follows the noise."""

_POINTS_PER_BEND = 32


@dataclass(frozen=True, slots=True, eq=False)
class ClockAlignment:
    """What must be added to one rank's clock so that it agrees with the reference rank's.

    Attributes:
        rank: The rank.
        reference_rank: The rank whose clock is taken as it is; the rank itself where it shares no end with another.
        form: What was fitted: "none", "offset", "drift" (a line) or "bends" (a line with bends).
        at: Stamps of the rank's own clock, ns, rising.
        add: What is added at each of them, ns; between them in proportion, outside as far as the line goes.
        drift_frac: Slope of the correction from the first to the last stamp (1e-6 is 1 ppm).
        error_ns: How far the ends disagree after the correction: the worst of fewer than 20 collectives, else the 95th
            percentile. None where no end can be compared.
        error_before_ns: The same without any correction.
        collectives: How many ends were compared.
    """

    rank: int
    reference_rank: int
    form: Form
    at: Ints
    add: Ints
    drift_frac: float
    error_ns: int | None
    error_before_ns: int | None
    collectives: int

    def aligned(self, ts: npt.ArrayLike) -> Ints:
        """Stamps of the rank's clock on the reference rank's clock, ns."""
        stamps = np.asarray(ts, dtype=np.int64)
        if self.form == "none":
            return stamps
        since = (stamps - self.at[0]).astype(np.float64)
        knots, values = (self.at - self.at[0]).astype(np.float64), (self.add - self.add[0]).astype(np.float64)
        add = np.interp(since, knots, values)
        if len(knots) > 1:
            add += np.minimum(since, 0) * (values[1] - values[0]) / (knots[1] - knots[0])
            add += np.maximum(since - knots[-1], 0) * (values[-1] - values[-2]) / (knots[-1] - knots[-2])
        aligned: Ints = stamps + self.add[0] + np.rint(add).astype(np.int64)
        return aligned


def clock_alignment(recording: Recording) -> dict[int, ClockAlignment]:
    """The correction of every rank's clock; worked out once per recording."""
    return memoized(
        recording, "clock_alignment", lambda: align_clocks(collective_parts(recording), tuple(recording.ranks))
    )


def align_clocks(parts: CollectiveParts, ranks: tuple[int, ...]) -> dict[int, ClockAlignment]:
    """Fits the corrections; see the module for how.

    One rank after the other is fitted to those that stand already, beginning with the one that shares most ends, and
    then all once more to each other. Ranks without a common collective, even through others, have a reference each.
    """
    place = {rank: number for number, rank in enumerate(ranks)}
    ends = _ends(parts, place)
    origin = int(parts.end[parts.ended].min()) if parts.ended.any() else 0
    raw = ends.astype(np.float64)
    raw[ends < 0] = np.nan
    there = ~np.isnan(raw)
    shared = there.T.astype(np.int64) @ there.astype(np.int64)
    np.fill_diagonal(shared, 0)
    now, reference = raw.copy(), np.full(len(ranks), -1)
    fits = {n: _fit(raw[:, n], np.full(len(raw), np.nan)) for n in range(len(ranks))}
    while (reference < 0).any():
        standing = np.flatnonzero(reference >= 0)
        waiting = np.flatnonzero(reference < 0)
        common = shared[np.ix_(waiting, standing)].sum(axis=1) if len(standing) else np.zeros(len(waiting))
        if not common.any():
            first = waiting[shared[waiting].sum(axis=1).argmax()]
            reference[first] = first
            continue
        one = int(waiting[common.argmax()])
        fits[one] = _fit(raw[:, one], _consensus(now, shared, one, standing))
        now[:, one] = raw[:, one] + fits[one].value(raw[:, one])
        reference[one] = reference[standing[shared[one, standing].argmax()]]
    for one in range(len(ranks)):
        others = np.flatnonzero((reference == reference[one]) & (np.arange(len(ranks)) != one))
        target = _consensus(now, shared, one, others)
        if reference[one] == one:
            fits[one] = _Fit("none", np.zeros(1), np.zeros(1), *_errors(target - raw[:, one]))
        else:
            fits[one] = _fit(raw[:, one], target)
            now[:, one] = raw[:, one] + fits[one].value(raw[:, one])
    return {rank: fits[n].alignment(rank, ranks[int(reference[n])], origin) for rank, n in place.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """A correction on time since the origin, in floating ns: the spans are short, so nothing is lost."""

    form: Form
    at: Floats
    add: Floats
    error: int | None
    count: int
    before: int | None = None

    def value(self, when: Floats) -> Floats:
        if self.form == "none":
            return np.zeros_like(when)
        slopes = np.diff(self.add) / np.diff(self.at)
        before, after = np.minimum(when - self.at[0], 0), np.maximum(when - self.at[-1], 0)
        value: Floats = np.interp(when, self.at, self.add) + before * slopes[0] + after * slopes[-1]
        return value

    def alignment(self, rank: int, reference: int, origin: int) -> ClockAlignment:
        at, add = np.rint(self.at).astype(np.int64) + origin, np.rint(self.add).astype(np.int64)
        drift = float((self.add[-1] - self.add[0]) / (self.at[-1] - self.at[0])) if len(self.at) > 1 else 0.0
        before = self.error if self.form == "none" else self.before
        return ClockAlignment(rank, reference, self.form, at, add, drift, self.error, before, self.count)


def _ends(parts: CollectiveParts, place: dict[int, int]) -> Ints:
    """Ends since the first one, as a (collectives, ranks) table with -1 where a rank took no part.

    Only kinds that hold every rank until the last, and so many of each group as are needed, spread over the time.
    """
    holds = np.array([kind in SYNCHRONIZING for kind in parts.kinds], dtype=bool)
    usable = np.flatnonzero(holds[parts.kind] & parts.ended) if len(parts) else np.zeros(0, dtype=np.int64)
    usable = usable[np.bincount(parts.match[usable], minlength=1)[parts.match[usable]] > 1]
    keep = []
    for group in np.unique(parts.group[usable]).tolist():
        mine = usable[parts.group[usable] == group]
        matches, first = np.unique(parts.match[mine], return_index=True)
        matches = matches[np.argsort(parts.ts[mine][first], kind="stable")]
        keep.append(matches[np.unique(np.linspace(0, len(matches) - 1, _MOST_MATCHES).astype(np.int64))])
    chosen = np.unique(np.concatenate(keep)) if keep else np.zeros(0, dtype=np.int64)
    usable = usable[np.isin(parts.match[usable], chosen)]
    table = np.full((len(chosen), len(place)), -1, dtype=np.int64)
    origin = parts.end[parts.ended].min() if len(usable) else 0
    columns = np.array([place[rank] for rank in parts.rank[usable].tolist()], dtype=np.int64)
    table[np.searchsorted(chosen, parts.match[usable]), columns] = parts.end[usable] - origin
    return table


def _consensus(now: Floats, shared: Ints, one: int, others: npt.NDArray[np.int64]) -> Floats:
    """The median of what the ranks that share most with one say about the end of each collective; nan for none."""
    best = others[np.argsort(-shared[one, others], kind="stable")][:_MOST_PEERS]
    best = best[shared[one, best] > 0]
    target = np.full(len(now), np.nan)
    rows = ~np.isnan(now[:, one]) & (~np.isnan(now[:, best])).any(axis=1) if len(best) else np.zeros(len(now), bool)
    target[rows] = np.nanmedian(now[np.ix_(rows, best)], axis=1) if rows.any() else 0.0
    return target


def _fit(own: Floats, target: Floats) -> _Fit:
    """The simplest correction that no richer one beats by half."""
    there = ~np.isnan(own) & ~np.isnan(target)
    when, difference = own[there], (target - own)[there]
    order = np.argsort(when, kind="stable")
    when, difference = when[order], difference[order]
    error, count = _errors(difference)
    best = _Fit("none", np.zeros(1), np.zeros(1), error, count, error)
    for form, needed in _NEEDED.items():
        if count < needed or best.error is None or when[-1] <= when[0]:
            continue
        at, add = _knots(form, when, difference)
        fit = _Fit(form, at, add, None, count)
        found, _ = _errors(difference - fit.value(when))
        if found is not None and found < _GAIN * best.error:
            best = _Fit(form, at, add, found, count, error)
    return best


def _knots(form: Form, when: Floats, difference: Floats) -> tuple[Floats, Floats]:
    """The stamps and values between which a correction of that form runs."""
    ends = np.array([when[0], when[-1]])
    if form == "offset":
        return ends, np.full(2, np.median(difference))
    half = len(when) // 2
    span = when[half:] - when[: len(when) - half]
    rise = (difference[half:] - difference[: len(when) - half])[span > 0] / span[span > 0]
    slope = float(np.clip(np.median(rise), -LARGEST_DRIFT, LARGEST_DRIFT)) if len(rise) else 0.0
    if form == "drift":
        return ends, np.median(difference - slope * when) + slope * ends
    pieces = [p for p in np.array_split(np.arange(len(when)), len(when) // _POINTS_PER_BEND) if len(p)]
    at = np.array([np.median(when[p]) for p in pieces])
    add = np.array([np.median(difference[p] - slope * (when[p] - np.median(when[p]))) for p in pieces])
    distinct = np.append(True, np.diff(at) > 0)
    return (at[distinct], add[distinct]) if distinct.sum() > 1 else (ends, np.full(2, add[0]))


def _errors(rest: Floats) -> tuple[int | None, int]:
    """The error that a rest of disagreement shows, ns, and how many ends it comes from."""
    rest = np.sort(np.abs(rest[~np.isnan(rest)]))
    if not len(rest):
        return None, 0
    place = len(rest) - 1 if len(rest) < _EXACT_BELOW else -(-len(rest) * 95 // 100) - 1
    return int(np.ceil(rest[place])), len(rest)
