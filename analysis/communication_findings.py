"""Findings from communication that no computation hides: waiting for another rank, and the transfer itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .causes import CAUSE_NAMES, CAUSES
from .clocks import clock_alignment
from .collective_parts import collective_parts
from .collectives import WITHHELD_BELOW, on_one_host, peer_waits
from .device_activity import rank_activity
from .exposed_communication import (
    CommunicationPieces,
    Placed,
    communication_lines,
    communication_pieces,
    peer_reasons,
)
from .finding_candidates import Candidate, Scope
from .finding_texts import duration_text
from .stall_claims import MOST_FRAC
from .steps import host_steps
from .timeline import Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_CASES = 3


def communication_candidates(recording: Recording, scopes: list[Scope]) -> list[Candidate]:
    """What exposed communication could give back: waiting by the peer waited for, and the rest; in no order."""
    result = []
    for scope in scopes:
        windows = iv.union(np.stack([scope.starts, scope.ends], axis=1))
        pieces = communication_pieces(recording, scope.device, windows)
        if not len(pieces):
            continue
        told = _worth_telling(recording, scope.rank)
        waiting = np.isin(pieces.peer, told)
        for peer in np.unique(pieces.peer[waiting]).tolist():
            mine = np.flatnonzero(pieces.peer == peer)
            result.append(_waiting(recording, scope, pieces, mine))
        if not waiting.all():
            result.append(_transfer(recording, scope, pieces, np.flatnonzero(~waiting)))
    return result


def _worth_telling(recording: Recording, rank: int) -> list[int]:
    """The ranks that this one waited for at least four times the error of the clocks; less may be nothing."""
    parts, waits = collective_parts(recording), peer_waits(recording)
    mine = waits.told & (parts.rank == rank) & parts.on_device & (waits.wait_ns > 0) & waits.last_is_certain
    return [
        int(peer)
        for peer in np.unique(waits.last_rank[mine])
        for chosen in [mine & (waits.last_rank == peer)]
        if peer != rank and waits.wait_ns[chosen].sum() >= WITHHELD_BELOW * waits.error_ns[chosen].sum()
    ]


def _waiting(recording: Recording, scope: Scope, pieces: CommunicationPieces, mine: Ints) -> Candidate:
    unit = f" per {scope.unit}" if scope.steps else ""
    peer, dur = int(pieces.peer[mine[0]]), int(pieces.dur[mine].sum())
    text = (
        f"{duration_text(scope.per_unit(dur))}{unit} in collectives until rank {peer} arrived, "
        f"{dur / int(pieces.dur.sum()):.0%} of the communication that nothing hides"
    )
    spent: Counter[tuple[int, Placed | None]] = Counter()
    chosen = pieces.take(mine)
    for reason, length in zip(peer_reasons(recording, scope.rank, chosen), chosen.dur.tolist(), strict=True):
        if reason is not None:
            spent[reason] += length
    place = None
    if spent and spent.most_common(1)[0][1] >= MOST_FRAC * dur:
        (cause, place), held = spent.most_common(1)[0]
        text += f"; in {held / dur:.0%} of it that rank came late because of {_what(cause)}"
        text += ", at this line of its program" if place is not None else ""
    else:
        text += _late_from_the_start(recording, scope.rank, peer, chosen)
    found = _candidate(recording, scope, "wait_for_peer", f" (rank {peer})", chosen, text + ".", place)
    return replace(found, peer=peer)


def _late_from_the_start(recording: Recording, rank: int, peer: int, pieces: CommunicationPieces) -> str:
    """That most of the wait is how much later the peer began what is recorded; "" where it is not."""
    own, its = host_steps(recording, rank), host_steps(recording, peer)
    common = np.intersect1d(own.numbers, its.numbers)
    if not len(common):
        return ""
    first, its_first = (int(np.flatnonzero(cut.numbers == common[0])[0]) for cut in (own, its))
    begins = [int(own.starts[first]), int(its.starts[its_first])]
    if not on_one_host(recording):
        clocks = clock_alignment(recording)
        begins = [int(clocks[one].aligned([begin])[0]) for one, begin in zip((rank, peer), begins, strict=True)]
    late, ends = begins[1] - begins[0], int(own.ends[first])
    waited = int(pieces.dur[pieces.ts < ends].sum())
    if min(late, waited) < MOST_FRAC * int(pieces.dur.sum()):
        return ""
    return (
        f"; rank {peer} began its first recorded step {duration_text(late)} after rank {rank} did, and what it was "
        "busy with before that is not in the recording"
    )


def _what(cause: int) -> str:
    name = CAUSE_NAMES[cause]
    return f"{name} ({CAUSES[name]})"


def _transfer(recording: Recording, scope: Scope, pieces: CommunicationPieces, mine: Ints) -> Candidate:
    unit = f" per {scope.unit}" if scope.steps else ""
    whole = scope.states["communication_total_ns"]
    chosen = pieces.take(mine)
    dur, alone = int(chosen.dur.sum()), len(recording.ranks) == 1
    text = (
        f"{duration_text(scope.per_unit(dur))}{unit} of communication with no computation beside it, "
        f"of {duration_text(scope.per_unit(whole))}{unit} in all"
    )
    if alone:
        text += "; with one rank in the recording, waiting for others and transfer cannot be told apart"
    elif len(mine) < len(pieces):
        text += "; waiting for other ranks is not in it"
    spent: Counter[Placed] = Counter()
    for place, length in zip(communication_lines(recording, scope.device, chosen), chosen.dur.tolist(), strict=True):
        if place is not None:
            spent[place] += length
    most = spent.most_common(1)
    place = most[0][0] if most and most[0][1] >= MOST_FRAC * dur else None
    return _candidate(recording, scope, "communication", "", chosen, text + ".", place, "medium" if alone else "high")


def _candidate(
    recording: Recording, scope: Scope, kind: str, about: str, pieces: CommunicationPieces, text: str,
    place: Placed | None, confidence: str = "high",
) -> Candidate:  # fmt: skip
    t = rank_activity(recording, scope.rank).timeline
    longest = pieces.row[np.argsort(-pieces.dur, kind="stable")]
    ids = tuple(dict.fromkeys(t.slice_id[longest].tolist()))[:_CASES]
    line = place[0] if place is not None else None
    return Candidate(
        scope, kind, about, int(pieces.dur.sum()), text, ids, confidence, line.file if line else None,
        (line.line or None) if line else None, line.function if line else None, place[1] if place else None,
    )  # fmt: skip
