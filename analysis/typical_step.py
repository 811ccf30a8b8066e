"""Which step stands for the others: a steady one of median length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .timeline_outline import timeline_outline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


@dataclass(frozen=True, slots=True)
class TypicalStep:
    """A step to look at.

    Attributes:
        rank: Whose it is.
        step: Its number.
        start: Where its host or a device begins it, whichever is first, ns.
        end: Where the last of them ends it, ns.
        dur: Its length on the first device, or on the host where there is none, ns.
        steady: How many steady steps it was chosen from; 0: none is steady, and it was chosen from all.
    """

    rank: int
    step: int
    start: int
    end: int
    dur: int
    steady: int


def typical_step(recording: Recording, rank: int) -> TypicalStep | None:
    """The steady step of a rank whose length is the (lower) median; None where the rank has no steps."""
    outline = timeline_outline(recording)
    host = outline.host_steps[rank]
    cuts = [outline.device_steps[number] for number in outline.devices_of(rank)]
    first = cuts[0] if cuts else host
    if not len(first):
        return None
    steady = np.flatnonzero(np.array(first.steady, dtype=np.bool_))
    among = steady if len(steady) else np.arange(len(first))
    dur = (first.ends - first.starts)[among]
    chosen = int(among[np.argsort(dur, kind="stable")[(len(dur) - 1) // 2]])
    number = int(first.numbers[chosen])
    ends = [
        (int(cut.starts[at]), int(cut.ends[at]))
        for cut in (host, *cuts)
        for at in np.flatnonzero(cut.numbers == number).tolist()
    ]
    length = int(first.ends[chosen] - first.starts[chosen])
    return TypicalStep(rank, number, min(start for start, _ in ends), max(end for _, end in ends), length, len(steady))
