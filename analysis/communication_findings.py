"""Findings from communication that no computation hides: waiting for another rank, and the transfer itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .collective_parts import collective_parts
from .collectives import WITHHELD_BELOW, peer_waits
from .finding_candidates import Candidate, Scope
from .finding_texts import duration_text
from .timeline import Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


def communication_candidates(recording: Recording, scopes: list[Scope]) -> list[Candidate]:
    """What exposed communication could give back: waiting by the peer waited for, and the rest; in no order."""
    result = []
    for scope in scopes:
        exposed = _inside(scope.device.exposed_communication, scope)
        total = iv.total(exposed)
        if not total:
            continue
        waits = _waits(recording, scope, exposed)
        waited = iv.total(iv.union(np.concatenate([spans for spans, _ in waits.values()]))) if waits else 0
        for peer, (spans, ids) in waits.items():
            result.append(_waiting(scope, peer, iv.total(spans), total, ids))
        result.append(_transfer(recording, scope, total - waited, total, alone=len(recording.ranks) == 1))
    return result


def _inside(spans: Ints, scope: Scope) -> Ints:
    windows = iv.union(np.stack([scope.starts, scope.ends], axis=1))
    return iv.intersection(spans, windows)


def _waits(recording: Recording, scope: Scope, exposed: Ints) -> dict[int, tuple[Ints, tuple[int, ...]]]:
    """Per rank waited for: when the device waited for it with nothing beside, and the slices, the longest first.

    A rank whose waiting is less than four times the error of the clocks is left out: it may be nothing.
    """
    parts, waits = collective_parts(recording), peer_waits(recording)
    told = waits.told & (parts.rank == scope.rank) & parts.on_device & (waits.wait_ns > 0)
    told &= waits.last_is_certain & (waits.last_rank != scope.rank)
    result = {}
    for peer in np.unique(waits.last_rank[told]).tolist():
        mine = np.flatnonzero(told & (waits.last_rank == peer))
        spans = iv.intersection(iv.union(iv.intervals(parts.ts[mine], parts.ts[mine] + waits.wait_ns[mine])), exposed)
        if iv.total(spans) and waits.wait_ns[mine].sum() >= WITHHELD_BELOW * waits.error_ns[mine].sum():
            longest = mine[np.argsort(-waits.wait_ns[mine], kind="stable")][:3]
            result[int(peer)] = (spans, tuple(i for i in parts.device_slice_id[longest].tolist() if i >= 0))
    return result


def _waiting(scope: Scope, peer: int, dur: int, total: int, ids: tuple[int, ...]) -> Candidate:
    unit = f" per {scope.unit}" if scope.steps else ""
    text = (
        f"{duration_text(scope.per_unit(dur))}{unit} in collectives until rank {peer} arrived, "
        f"{dur / total:.0%} of the communication that nothing hides."
    )
    return Candidate(scope, "wait_for_peer", f" (rank {peer})", dur, text, ids, "high")


def _transfer(recording: Recording, scope: Scope, dur: int, total: int, *, alone: bool) -> Candidate:
    unit = f" per {scope.unit}" if scope.steps else ""
    whole = scope.states["communication_total_ns"]
    text = (
        f"{duration_text(scope.per_unit(dur))}{unit} of communication with no computation beside it, "
        f"of {duration_text(scope.per_unit(whole))}{unit} in all"
    )
    if alone:
        text += "; with one rank in the recording, waiting for others and transfer cannot be told apart"
    elif dur < total:
        text += "; waiting for other ranks is not in it"
    return Candidate(scope, "communication", "", dur, text + ".", (), "medium" if alone else "high")
