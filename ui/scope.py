"""Which recording, rank and step a page is about, as its address says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .served import Served

if TYPE_CHECKING:
    from .open_recordings import OpenRecordings

Query = Mapping[str, str]


def named(recordings: OpenRecordings, query: Query) -> Served:
    """The recording that an address names; the first where it names none that is open."""
    return recordings.shown(query.get("recording"))


def chosen_ranks(served: Served, query: Query) -> tuple[int, ...]:
    """The rank that an address names, or all; with a step, only those that have it."""
    rank = served.rank_of(query.get("rank"))
    ranks = served.recording.ranks if rank is None else (rank,)
    step = chosen_step(served, query)
    return ranks if step is None else tuple(one for one in ranks if step in step_numbers(served, (one,)))


def chosen_rank(served: Served, query: Query) -> int:
    """The rank that an address names, for a page about one: the first that has the step where it names none."""
    ranks = chosen_ranks(served, query)
    return ranks[0] if ranks else served.recording.ranks[0]


def chosen_step(served: Served, query: Query) -> int | None:
    """The step that an address names; None where it names none that the rank (or any rank) has."""
    text = query.get("step", "")
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 19):
        return None
    rank = served.rank_of(query.get("rank"))
    step = int(text)
    return step if step in step_numbers(served, served.recording.ranks if rank is None else (rank,)) else None


def step_numbers(served: Served, ranks: tuple[int, ...]) -> list[int]:
    """The numbers of the steps of some ranks, rising."""
    known = served.outline.host_steps
    return sorted({number for rank in ranks for number in known[rank].numbers.tolist()})


def step_window(served: Served, query: Query) -> tuple[int, int] | None:
    """The chosen step of the chosen ranks: from where a host begins it to where the last device ends it.

    In ns on the recording's clock.
    """
    step = chosen_step(served, query)
    if step is None:
        return None
    outline, ends = served.outline, []
    for rank in chosen_ranks(served, query):
        cuts = [outline.host_steps[rank], *(outline.device_steps[number] for number in outline.devices_of(rank))]
        for cut in cuts:
            at = cut.numbers.tolist().index(step)
            ends.append((int(cut.starts[at]), int(cut.ends[at])))
    return (min(start for start, _ in ends), max(end for _, end in ends)) if ends else None
