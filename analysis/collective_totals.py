"""What collectives cost over a whole recording: the waiting apart from the wire, and whom it was for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from .clocks import clock_alignment
from .collective_parts import CollectiveParts, collective_parts
from .collectives import UNMATCHED, WITHHELD_BELOW, PeerWaits, peer_waits
from .columns import nullable_floats, nullable_ints, texts
from .group_statistics import group_sum
from .nesting import Ints, Mask

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

TotalsBy = Literal["all", "rank", "peer", "kind", "group"]


@dataclass(frozen=True, slots=True)
class CollectiveSummary:
    """The time that ranks spent in collectives, summed over the ranks.

    Attributes:
        parts: Parts of ranks in collectives.
        total_ns: Their time: wait + transfer + unknown, exactly, wherever the first two are given.
        wait_for_peer_ns: Until the last rank arrived; None where withheld.
        transfer_ns: From then on; None where withheld.
        unknown_ns: Of parts for which the two cannot be told apart.
        error_ns: Of waiting and of transfer, by the clocks: the sum of the errors of the parts.
        lower_bound: Whether ranks are missing in some collective, so that waiting may be more and transfer less.
        peer: The rank that was waited for longest; None where no one was.
        peer_wait_ns: The waiting for it.
        reason: Why a number is withheld or a part unknown, "" where none is.
    """

    parts: int
    total_ns: int
    wait_for_peer_ns: int | None
    transfer_ns: int | None
    unknown_ns: int
    error_ns: int
    lower_bound: bool
    peer: int | None
    peer_wait_ns: int
    reason: str


def collective_totals(recording: Recording, *, by: TotalsBy = "rank", chosen: Mask | None = None) -> pd.DataFrame:
    """Sums over the parts of all ranks.

    Args:
        recording: The recording.
        by: "rank" (who waited), "peer" (who was waited for), "kind", "group", or "all" for one row.
        chosen: Per part (as in ``collective_parts``) whether it counts; all by default.

    Returns:
        One row a rank, peer, kind or group: that key (null for "all" and where the peer cannot be told), parts,
        total_ns (wait + transfer + unknown, exactly), wait_for_peer_ns and transfer_ns (null where less than four
        times the error), unknown_ns (parts for which the two cannot be told apart), error_ns (of both: the sum of the
        parts' errors), wait_frac (of the part of the total that can be told), lower_bound (ranks are missing, so the
        waiting may be more), in_bytes and out_bytes (of the parts that know them, null if none does), reason (why
        something is unknown or withheld, null if nothing is). By peer, a row sums what all ranks waited
        for it. By rank and kind: in that order; else the longest waiting first.
    """
    parts, waits = collective_parts(recording), peer_waits(recording)
    code, keys = _key(parts, waits, by)
    code = code if chosen is None else np.where(chosen, code, -1)
    frame = _sums(parts, waits, code, len(keys))
    if by == "rank" or by == "peer":
        frame.insert(0, by, nullable_ints([key if isinstance(key, int) else -1 for key in keys], _known(keys)))
    elif by != "all":
        frame.insert(0, by, texts([str(key) if key is not None else None for key in keys], np.arange(len(keys))))
    if by in ("peer", "group"):
        order = np.lexsort((np.arange(len(keys)), -group_sum(code, np.where(waits.told, waits.wait_ns, 0), len(keys))))
        frame = frame.iloc[order].reset_index(drop=True)
    return frame


def collective_summary(recording: Recording) -> CollectiveSummary:
    """One line about the collectives of a recording; all zero where it has none."""
    row = collective_totals(recording, by="all").iloc[0]
    peers = collective_totals(recording, by="peer")
    peers = peers[peers["peer"].notna() & peers["wait_for_peer_ns"].notna()]
    longest = peers.iloc[0] if len(peers) and int(peers.iloc[0]["wait_for_peer_ns"]) > 0 else None
    return CollectiveSummary(
        parts=int(row["parts"]),
        total_ns=int(row["total_ns"]),
        wait_for_peer_ns=None if pd.isna(row["wait_for_peer_ns"]) else int(row["wait_for_peer_ns"]),
        transfer_ns=None if pd.isna(row["transfer_ns"]) else int(row["transfer_ns"]),
        unknown_ns=int(row["unknown_ns"]),
        error_ns=int(row["error_ns"]),
        lower_bound=bool(row["lower_bound"]),
        peer=None if longest is None else int(longest["peer"]),
        peer_wait_ns=0 if longest is None else int(longest["wait_for_peer_ns"]),
        reason="" if pd.isna(row["reason"]) else str(row["reason"]),
    )


def collective_issues(recording: Recording) -> pd.DataFrame:
    """What keeps collectives from being matched or told apart.

    Returns:
        One row a reason, rank and kind, most time first: reason, rank, kind, parts, total_ns.
    """
    parts, waits = collective_parts(recording), peer_waits(recording)
    reason = waits.reason.copy()
    own = (parts.issue >= 0) & (waits.reason == UNMATCHED)
    reason[own] = np.array([*parts.issues, ""], dtype=object)[parts.issue[own]]
    bad = reason != ""
    kind = np.array([*parts.kinds, ""], dtype=object)[parts.kind]
    frame = pd.DataFrame({"reason": reason, "rank": parts.rank, "kind": kind, "dur": parts.end - parts.ts})[bad]
    grouped = frame.groupby(["reason", "rank", "kind"], sort=True)["dur"]
    found: pd.DataFrame = grouped.agg(parts="size", total_ns="sum").reset_index()
    order = [False, True, True, True]
    return found.sort_values(["total_ns", "reason", "rank", "kind"], ascending=order, ignore_index=True)


def clock_errors(recording: Recording) -> pd.DataFrame:
    """How the clocks of the ranks were aligned.

    Returns:
        One row a rank: rank, reference_rank, form ("none": they agree already; "offset", "drift", "bends"), offset_ns
        (what was added at its first common end), drift_ppm, error_ns (null: no end to compare), error_before_ns (the
        error without a correction), collectives (ends compared).
    """
    clocks = list(clock_alignment(recording).values())
    errors = [c.error_ns for c in clocks], [c.error_before_ns for c in clocks]
    return pd.DataFrame(
        {
            "rank": np.array([c.rank for c in clocks], dtype=np.int64),
            "reference_rank": np.array([c.reference_rank for c in clocks], dtype=np.int64),
            "form": texts([c.form for c in clocks], np.arange(len(clocks))),
            "offset_ns": np.array([int(c.add[0]) for c in clocks], dtype=np.int64),
            "drift_ppm": np.array([c.drift_frac * 1e6 for c in clocks], dtype=np.float64),
            "error_ns": nullable_ints([e or 0 for e in errors[0]], [e is not None for e in errors[0]]),
            "error_before_ns": nullable_ints([e or 0 for e in errors[1]], [e is not None for e in errors[1]]),
            "collectives": np.array([c.collectives for c in clocks], dtype=np.int64),
        }
    )


def _key(parts: CollectiveParts, waits: PeerWaits, by: TotalsBy) -> tuple[Ints, list[int | str | None]]:
    """The number of each part's group, and what the numbers stand for."""
    if by == "all":
        return np.zeros(len(parts), dtype=np.int64), [None]
    if by == "kind":
        return parts.kind, list(parts.kinds)
    if by == "group":
        return parts.group, [name or None for name, _ in parts.groups]
    values = parts.rank if by == "rank" else np.where(waits.told & waits.last_is_certain, waits.last_rank, -1)
    distinct, code = np.unique(values, return_inverse=True)
    return code.reshape(-1).astype(np.int64), [None if v < 0 else v for v in distinct.tolist()]


def _known(keys: list[int | str | None]) -> list[bool]:
    return [key is not None for key in keys]


def _sums(parts: CollectiveParts, waits: PeerWaits, code: Ints, count: int) -> pd.DataFrame:
    dur, told = parts.end - parts.ts, waits.told

    def total(values: Ints) -> Ints:
        return group_sum(code, values, count)

    def size(values: Ints) -> pd.Series[int]:
        return nullable_ints(total(np.maximum(values, 0)), total((values >= 0).astype(np.int64)) > 0)

    wait, transfer = total(np.where(told, waits.wait_ns, 0)), total(np.where(told, waits.transfer_ns, 0))
    error = total(np.where(told, waits.error_ns, 0))
    some = total(told.astype(np.int64)) > 0
    wait_said = some & (wait >= WITHHELD_BELOW * error)
    transfer_said = some & (transfer >= WITHHELD_BELOW * error)
    return pd.DataFrame(
        {
            "parts": total(np.ones_like(dur)),
            "total_ns": total(dur),
            "wait_for_peer_ns": nullable_ints(wait, wait_said | ((total(dur) == 0) & ~some)),
            "transfer_ns": nullable_ints(transfer, transfer_said | ((total(dur) == 0) & ~some)),
            "unknown_ns": total(np.where(told, 0, dur)),
            "error_ns": error,
            "wait_frac": nullable_floats(wait / np.maximum(wait + transfer, 1), wait_said & (wait + transfer > 0)),
            "lower_bound": total((told & (waits.expected > waits.present)).astype(np.int64)) > 0,
            "in_bytes": size(parts.in_bytes),
            "out_bytes": size(parts.out_bytes),
            "reason": _reasons(waits, code, some & ~(wait_said & transfer_said), count),
        }
    )


def _reasons(waits: PeerWaits, code: Ints, withheld: np.ndarray[tuple[int], np.dtype[np.bool_]], count: int) -> object:
    """Per group the reasons for what is unknown, and that a sum is withheld."""
    found: list[set[str]] = [set() for _ in range(count)]
    bad = np.flatnonzero(~waits.told & (code >= 0))
    for group, reason in set(zip(code[bad].tolist(), waits.reason[bad].tolist(), strict=True)):
        found[group].add(reason)
    for group in np.flatnonzero(withheld).tolist():
        found[group].add("the sum is less than four times the error of the clocks")
    return texts(["; ".join(sorted(reasons)) or None for reasons in found], np.arange(count))
