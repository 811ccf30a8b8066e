"""The collectives of all ranks, one row a rank's part, and which parts belong to one collective.

Parts are matched by group and sequence number. Where the trace has no numbers, the n-th collective of a kind in a
group on one rank is the n-th on every other; where the ranks disagree about how many there are, this is tried within
each step instead, and what still disagrees stays unmatched. A send goes with the receive that names it, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .nesting import Ints, Mask
from .timeline import memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

POINT_TO_POINT = ("send", "recv")


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveParts:
    """One rank's part in one collective a row, as columns of equal length; -1 where the recording has null.

    Attributes:
        kinds: The kinds; ``kind`` holds indices into them.
        groups: Per group its name and its ranks (None where not known); ``group`` holds indices into them.
        rank: The rank.
        kind: Index of the kind.
        group: Index of the group; parts without one share the group ("", None).
        sequence: The number in the group.
        peer: The other rank of a send or receive.
        ts: Start, ns: of the device's part, of the host's call where the collective has no device part on any rank.
        end: End, ns, exclusive.
        ended: Whether the end was seen.
        call_ts: Start of the host's call, of the part itself where the call is not known.
        on_device: Whether ``ts`` and ``end`` are the device's.
        slice_id: The host's call.
        device_slice_id: The device's part.
        in_bytes: Bytes in.
        out_bytes: Bytes out.
        match: Number of the collective that it is part of; a part that belongs to no other has a number of its own.
        issue: Why a part has no match, as an index into ``issues``; -1 where it has one or stands alone rightly.
        issues: The reasons.
    """

    kinds: tuple[str, ...]
    groups: tuple[tuple[str, tuple[int, ...] | None], ...]
    rank: Ints
    kind: Ints
    group: Ints
    sequence: Ints
    peer: Ints
    ts: Ints
    end: Ints
    ended: Mask
    call_ts: Ints
    on_device: Mask
    slice_id: Ints
    device_slice_id: Ints
    in_bytes: Ints
    out_bytes: Ints
    match: Ints
    issue: Ints
    issues: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rank)


def collective_parts(recording: Recording) -> CollectiveParts:
    """The matched parts of all ranks, by rank and start; worked out once per recording."""
    return memoized(recording, "collective_parts", lambda: _parts(recording))


def _parts(recording: Recording) -> CollectiveParts:
    table = recording.table("collectives")
    groups, group = _groups(recording, table)
    kinds, kind = _texts(table, "kind")
    columns = {c: _ints(table, c) for c in ("rank", "slice_id", "device_slice_id", "peer_rank", "sequence_number")}
    columns |= {c: _ints(table, c) for c in ("in_bytes", "out_bytes")}
    times = _times(recording, columns["rank"], columns["slice_id"], columns["device_slice_id"])
    columns |= times | {"kind": kind, "group": group}
    # With device parts of a kind and group in the recording, a call without one says nothing about the transfer.
    key = kind * (len(groups) + 1) + group
    has_device = np.isin(key, key[times["on_device"] == 1])
    # Nor does one whose group is not known beside device parts of its kind: it may be the same collective, told twice.
    has_device |= (group == 0) & np.isin(kind, kind[times["on_device"] == 1])
    kept = np.flatnonzero((times["found"] == 1) & ((times["on_device"] == 1) | ~has_device))
    kept = kept[np.lexsort((columns["device_slice_id"][kept], times["ts"][kept], columns["rank"][kept]))]
    columns = {name: values[kept] for name, values in columns.items()}
    match, issue, issues = _match(columns, kinds, _step_of(recording, columns["rank"], columns["call_ts"]))
    return CollectiveParts(
        kinds=tuple(kinds),
        groups=groups,
        rank=columns["rank"],
        kind=columns["kind"],
        group=columns["group"],
        sequence=columns["sequence_number"],
        peer=columns["peer_rank"],
        ts=columns["ts"],
        end=columns["end"],
        ended=columns["ended"] == 1,
        call_ts=columns["call_ts"],
        on_device=columns["on_device"] == 1,
        slice_id=columns["slice_id"],
        device_slice_id=columns["device_slice_id"],
        in_bytes=columns["in_bytes"],
        out_bytes=columns["out_bytes"],
        match=match,
        issue=issue,
        issues=issues,
    )


def _match(columns: dict[str, Ints], kinds: list[str], step: Ints) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Numbers the collectives; returns (match, issue, issues) as in ``CollectiveParts``."""
    count = len(columns["rank"])
    frame = pd.DataFrame({name: columns[name] for name in ("rank", "group", "kind", "ts")})
    frame["number"], frame["step"], frame["way"] = columns["sequence_number"], step, "order"
    paired = np.isin(columns["kind"], [i for i, name in enumerate(kinds) if name in POINT_TO_POINT])
    sends = columns["kind"] == (kinds.index("send") if "send" in kinds else -1)
    frame["source"] = np.where(paired, np.where(sends, columns["rank"], columns["peer_rank"]), -1)
    frame["target"] = np.where(paired, np.where(sends, columns["peer_rank"], columns["rank"]), -1)
    frame.loc[paired, "kind"] = len(kinds)
    frame.loc[paired, "number"] = -1
    frame.loc[frame["number"] >= 0, "way"] = "number"
    issue = np.full(count, -1, dtype=np.int64)
    issues = ["the trace does not name the other rank of this send or receive"]
    issue[paired & (columns["peer_rank"] < 0)] = 0
    by_order = (frame["way"] == "order").to_numpy()
    within = ["group", "kind", "source", "target"]
    uneven, _ = _uneven(frame, by_order, within)
    frame.loc[uneven, "way"] = "step"
    frame.loc[~uneven, "step"] = -1
    still, text = _uneven(frame, uneven, [*within, "step"])
    still |= uneven & (step < 0)
    for row in np.flatnonzero(still).tolist():
        reason = text.get(row, "the ranks have unequal numbers of this kind in this group, and this one is in no step")
        if reason not in issues:
            issues.append(reason)
        issue[row] = issues.index(reason)
    frame["turn"] = frame.groupby(["rank", *within, "number", "step"], sort=False).cumcount()
    match = frame.groupby([*within, "way", "number", "step", "turn"], sort=False).ngroup().to_numpy().astype(np.int64)
    alone = issue >= 0
    match[alone] = match.max(initial=-1) + 1 + np.arange(int(alone.sum()))
    _, match = np.unique(match, return_inverse=True)
    return match.reshape(-1).astype(np.int64), issue, tuple(issues)


def _uneven(frame: pd.DataFrame, chosen: Mask, keys: list[str]) -> tuple[Mask, dict[int, str]]:
    """Which of the chosen parts are of a kind that the ranks have unequal numbers of, with the reason for each.

    Ranks with none at all do not count: they may not be in the group.
    """
    part = frame[chosen]
    uneven = np.zeros(len(frame), dtype=bool)
    if not len(part):
        return uneven, {}
    place = part.groupby(keys, sort=False).ngroup()
    counts = part.groupby([place, part["rank"]]).size()
    spread = counts.groupby(level=0).agg(["min", "max"])
    odd_groups = spread.index[spread["min"] != spread["max"]]
    wrong = place[place.isin(odd_groups)]
    uneven[wrong.index.to_numpy()] = True
    text = {group: _unequal(counts.loc[group]) for group in odd_groups}
    return uneven, {int(row): text[group] for row, group in zip(wrong.index, wrong, strict=True)}


def _unequal(counts: pd.Series[int]) -> str:
    most = int(counts.mode().iloc[-1])
    odd = ", ".join(f"rank {rank} has {n}" for rank, n in counts.items() if n != most)
    return f"unequal numbers of this kind in this group: {odd}, the others {most}"


def _times(recording: Recording, rank: Ints, call: Ints, device: Ints) -> dict[str, Ints]:
    """Start and end of each part, from the device where it has a device part, else from the host's call."""
    names = ("ts", "end", "ended", "call_ts", "on_device", "found")
    result = {name: np.zeros(len(rank), dtype=np.int64) for name in names}
    for one in np.unique(rank).tolist():
        mine = np.flatnonzero(rank == one)
        t = timeline(recording, one)
        host_row, device_row = t.rows_of(call[mine]), t.rows_of(device[mine])
        row = np.where(device_row >= 0, device_row, host_row)
        there = row >= 0
        at, row, host_row = mine[there], row[there], host_row[there]
        result["ts"][at], result["end"][at], result["found"][at] = t.ts[row], t.end[row], 1
        # A host call without a length is known by its beginning alone: the flight recorder's entries are.
        result["ended"][at] = ~t.unfinished[row] & ((device_row[there] >= 0) | (t.end[row] > t.ts[row]))
        result["call_ts"][at] = t.ts[np.where(host_row >= 0, host_row, row)]
        result["on_device"][at] = device_row[there] >= 0
    return result


def _step_of(recording: Recording, rank: Ints, at: Ints) -> Ints:
    """The number of the host step that contains each instant of a rank; -1 for none."""
    steps = recording.table("steps")
    steps = steps.filter(pc.equal(steps["basis"].cast(pa.string()), "host"))
    owner, number, ts, dur = (_ints(steps, c) for c in ("rank", "step", "ts", "dur"))
    result = np.full(len(rank), -1, dtype=np.int64)
    for one in np.unique(owner).tolist():
        mine, order = np.flatnonzero(rank == one), np.flatnonzero(owner == one)
        order = order[np.argsort(ts[order], kind="stable")]
        place = np.searchsorted(ts[order], at[mine], side="right") - 1
        row = order[np.maximum(place, 0)]
        inside = (place >= 0) & (at[mine] < ts[row] + dur[row])
        result[mine] = np.where(inside, number[row], -1)
    return result


def _groups(recording: Recording, table: pa.Table) -> tuple[tuple[tuple[str, tuple[int, ...] | None], ...], Ints]:
    """The groups by name and ranks, which are the same on every rank where ids need not be, and each row's group."""
    known: dict[tuple[str, tuple[int, ...] | None], int] = {("", None): 0}
    code_of_id: dict[int, int] = {}
    for row in recording.table("groups").to_pylist():
        key = (row["name"] or "", tuple(row["ranks"]) if row["ranks"] else None)
        code_of_id[row["group_id"]] = known.setdefault(key, len(known))
    ids = _ints(table, "group_id")
    distinct, place = np.unique(ids, return_inverse=True)
    codes = np.array([code_of_id.get(i, 0) for i in distinct.tolist()], dtype=np.int64)
    return tuple(known), codes[place.reshape(-1)] if len(ids) else ids


def _ints(table: pa.Table, column: str) -> Ints:
    values: Ints = pc.fill_null(table[column], -1).to_numpy().astype(np.int64)
    return values


def _texts(table: pa.Table, column: str) -> tuple[list[str], Ints]:
    """The distinct texts of a column and, per row, which; a missing text is ""."""
    array: Any = pc.fill_null(table[column].cast(pa.string()), "").combine_chunks().dictionary_encode()
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.dictionary.to_pylist(), array.indices.to_numpy().astype(np.int64)
