"""What to do about the time that is lost: at most five findings, the one that would give back most first.

A finding says how much time per step it would give back, on what evidence, at which line, and one thing to try. Where
nothing is worth doing there is none, and the verdict says that the device is the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .communication_findings import communication_candidates
from .device_activity import rank_activity
from .finding_candidates import Candidate, Scope
from .finding_texts import WORDING, duration_text, wording
from .memory_growth import memory_growth
from .selection import device_selection
from .stall_claims import ALL_OVER
from .stall_findings import stall_candidates
from .step_breakdown import states_within
from .steps import StepCut, device_steps

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

LIMIT = 5
"""More than five things to do are none."""

WORTH_FRAC = 0.02
"""A finding that would give back less than this share of the step is not worth a line."""

LEAST_GROWTH_BYTES = 1024
"""Memory that grows by less than this a step takes a million steps for a gigabyte: no line either."""

DEVICE_BOUND_FRAC = 0.97
"""From this share of time in computation on, the device is the limit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs time.

    Attributes:
        kind: What it is: a key of ``finding_texts.WORDING``.
        title: What is the matter, as a sentence.
        rank: The rank with most of it.
        ranks: All ranks that have it.
        device_type: The device, as in ``step_breakdown``.
        device_index: The device, as in ``step_breakdown``.
        gives_back_ns: The time that it would give back, on that rank; 0 for memory.
        per: What that is in: ``step`` (the mean of the steady steps) or ``window`` (the recording has no steps).
        share_frac: The share of the step or window.
        evidence: The numbers that it rests on, as a sentence.
        slice_ids: Slices to look at, the longest case first.
        file: Where in the source; None where not known.
        line: The line.
        function: The function.
        line_source: As in ``stalls``.
        advice: One thing to try.
        confidence: low, medium or high.
        peer: The rank that was waited for; None where it is no waiting for a rank.
    """

    kind: str
    title: str
    rank: int
    ranks: tuple[int, ...]
    device_type: str
    device_index: int | None
    gives_back_ns: int
    per: str
    share_frac: float
    evidence: str
    slice_ids: tuple[int, ...]
    file: str | None
    line: int | None
    function: str | None
    line_source: str | None
    advice: str
    confidence: str
    peer: int | None = None


@dataclass(frozen=True, slots=True)
class ColdStart:
    """What the first steps of a rank cost beyond a steady one; they are in no average.

    Attributes:
        rank: The rank.
        steps: How many steps prepared or warmed up.
        total_ns: How long they took.
        steady_step_ns: The median of the steady steps; None where there is none.
    """

    rank: int
    steps: int
    total_ns: int
    steady_step_ns: int | None


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything worth saying about a recording.

    Attributes:
        verdict: One sentence: what limits the step.
        findings: At most ``LIMIT``, the most time first; those about memory last.
        cold_starts: One per rank that prepared.
    """

    verdict: str
    findings: tuple[Finding, ...]
    cold_starts: tuple[ColdStart, ...]


def findings(recording: Recording, *, ranks: tuple[int, ...] | None = None) -> Findings:
    """The findings of a recording, over the steady steps where it has steps and over each device's window elsewhere."""
    chosen = recording.ranks if ranks is None else ranks
    scopes = [scope for rank in chosen for scope in _scopes(recording, rank)]
    found = [one for one in _over_ranks(_candidates(recording, scopes)) if one.share_frac >= WORTH_FRAC]
    found = _one_of_each_spread(sorted(found, key=lambda finding: -finding.gives_back_ns))
    found = (found + _memory(recording, chosen))[:LIMIT]
    return Findings(_verdict(scopes, found), tuple(found), tuple(_cold_starts(recording, chosen)))


def finding_candidates(recording: Recording, *, ranks: tuple[int, ...] | None = None) -> list[Candidate]:
    """What findings are chosen from: each kind of loss on each device with its line, however small, in no order."""
    chosen = recording.ranks if ranks is None else ranks
    return _candidates(recording, [scope for rank in chosen for scope in _scopes(recording, rank)])


def _candidates(recording: Recording, scopes: list[Scope]) -> list[Candidate]:
    candidates = [c for scope in scopes for c in stall_candidates(recording, scope)]
    return candidates + communication_candidates(recording, scopes)


def _scopes(recording: Recording, rank: int) -> list[Scope]:
    """What each device of a rank is judged by: its steady steps; where it did nothing in them, its window."""
    scopes = []
    for device in rank_activity(recording, rank).devices:
        selection = device_selection(recording, rank, device)
        starts, ends, steps = selection.starts, selection.ends, selection.steps
        if not steps or (starts == ends).all():
            starts, ends, steps = *(np.array([edge], dtype=np.int64) for edge in device.window), 0
        total = int((ends - starts).sum())
        if total > 0:
            states = {name: int(sums.sum()) for name, sums in states_within(device, starts, ends).items()}
            scopes.append(Scope(rank, device, starts, ends, steps, total, states))
    return scopes


def _over_ranks(candidates: list[Candidate]) -> list[Finding]:
    """One finding for the same thing on several ranks: the one of the rank that loses most."""
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault((candidate.kind, candidate.file, candidate.line, candidate.about), []).append(candidate)
    return [_finding(max(group, key=lambda c: c.per_unit_ns), group) for group in groups.values()]


def _finding(candidate: Candidate, group: list[Candidate]) -> Finding:
    scope = candidate.scope
    words = wording(candidate.kind, on_device=scope.device.device is not None)
    ranks = tuple(sorted({other.scope.rank for other in group}))
    evidence = candidate.evidence
    if len(ranks) > 1:
        evidence += f" That is rank {scope.rank}, which loses most of the {len(ranks)} ranks with it."
    title = words.title.format(device=scope.noun) + candidate.about
    return Finding(
        kind=candidate.kind,
        title=title[0].upper() + title[1:],
        rank=scope.rank,
        ranks=ranks,
        device_type=scope.device.device_type,
        device_index=scope.device.device_index,
        gives_back_ns=candidate.per_unit_ns,
        per=scope.unit,
        share_frac=candidate.dur_ns / scope.total_ns,
        evidence=evidence,
        slice_ids=candidate.slice_ids,
        file=candidate.file,
        line=candidate.line,
        function=candidate.function,
        line_source=candidate.line_source,
        advice=words.advice,
        confidence=candidate.confidence,
        peer=candidate.peer,
    )


def _one_of_each_spread(found: list[Finding]) -> list[Finding]:
    """The findings, where what many lines share in is said once: of the line that has most, with the rest named."""
    kept: dict[object, Finding] = {}
    for number, finding in enumerate(found):
        key = (finding.kind, finding.device_type, finding.device_index) if finding.kind in ALL_OVER else number
        first = kept.get(key)
        if first is None:
            kept[key] = finding
        else:
            more = f" Elsewhere it is {duration_text(finding.gives_back_ns)} more."
            kept[key] = replace(first, evidence=first.evidence + more)
    return list(kept.values())


def _memory(recording: Recording, ranks: tuple[int, ...]) -> list[Finding]:
    """Devices whose memory grows from step to step: no time lost yet, but the run will end."""
    found = []
    for rank in ranks:
        for growth in memory_growth(recording, rank=rank):
            if growth.verdict != "grows" or growth.total_bytes < LEAST_GROWTH_BYTES * (growth.steps - 1):
                continue
            words = WORDING["memory_growth"]
            found.append(
                Finding(
                    "memory_growth", words.title, rank, (rank,), growth.device_type, growth.device_index, 0, "step",
                    0.0, growth.note, (), None, None, None, None, words.advice, "medium",
                )
            )  # fmt: skip
    return found[:1]


def _verdict(scopes: list[Scope], found: list[Finding]) -> str:
    if not scopes:
        return "No device work and no ops are recorded: there is nothing to judge."
    total = sum(scope.total_ns for scope in scopes)
    compute = sum(scope.states["compute_ns"] for scope in scopes) / total
    timed = [finding for finding in found if finding.gives_back_ns]
    if compute >= DEVICE_BOUND_FRAC or not timed:
        limit = "the device is" if scopes[0].device.device is not None else "the ops themselves are"
        return f"{limit[0].upper()}{limit[1:]} the limit: {compute:.0%} of the time is computation."
    first = timed[0]
    return (
        f"{first.title}: {duration_text(first.gives_back_ns)} of each {first.per}, {first.share_frac:.0%} of it."
        if first.per == "step"
        else f"{first.title}: {duration_text(first.gives_back_ns)}, {first.share_frac:.0%} of the time."
    )


def _cold_starts(recording: Recording, ranks: tuple[int, ...]) -> list[ColdStart]:
    found = []
    for rank in ranks:
        devices = rank_activity(recording, rank).devices
        if devices:
            cold = _cold_start(rank, device_steps(recording, rank, devices[0]))
            found += [cold] if cold else []
    return found


def _cold_start(rank: int, cut: StepCut) -> ColdStart | None:
    steady, prepared = np.array(cut.steady, dtype=np.bool_), np.array(cut.cold, dtype=np.bool_)
    if not prepared.any():
        return None
    dur = cut.ends - cut.starts
    typical = int(np.median(dur[steady & (dur > 0)])) if (steady & (dur > 0)).any() else None
    return ColdStart(rank, int(prepared.sum()), int(dur[prepared].sum()), typical)
