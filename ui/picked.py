"""What the timeline learns of a picked slice or piece of a band: where it lies, its arrows, what to outline."""

from __future__ import annotations

from typing import Any

from ..analysis.device_bands import BAND_CODES
from ..analysis.slice_facts import slice_facts, stall_facts
from ..analysis.slice_search import entries_of_slices
from ..analysis.tile_index import TileIndex
from ..profiler.recording.categories import CATEGORIES
from .timeline_meta import band_label
from .timeline_tracks import TimelineTracks

MOST_ARROWS = 100
"""A graph launch has hundreds of kernels: more arrows than this are a blot, not an answer."""


def picked_slice(tracks: TimelineTracks, entry: int) -> dict[str, Any]:
    """The answer to ``slice`` for an entry of the tile index."""
    served, index = tracks.served, tracks.served.index
    place = _place(tracks, index, entry)
    slice_id = int(index.slice_id[entry])
    rank = index.tracks[place["track"]].rank
    with served.lock:
        facts = slice_facts(served.recording, rank, slice_id, int(index.start[entry]), most_arrows=MOST_ARROWS)
    arrows: list[dict[str, Any]] = []
    if facts is not None:
        ends = sorted({end for arrow in facts.arrows for end in (arrow.from_slice_id, arrow.to_slice_id)})
        entries = entries_of_slices(index, ends)
        arrows = [
            {
                "kind": arrow.kind,
                "from": _arrow_end(tracks, entries[arrow.from_slice_id]),
                "to": _arrow_end(tracks, entries[arrow.to_slice_id]),
            }
            for arrow in facts.arrows
            if arrow.from_slice_id in entries and arrow.to_slice_id in entries
        ]
    return place | {
        "band": False,
        "slice_id": slice_id,
        "rank": rank,
        "name": index.names[int(index.name[entry])],
        "category": CATEGORIES[int(index.category[entry])],
        "arrows": arrows,
        "highlights": [],
    }


def picked_piece(tracks: TimelineTracks, entry: int) -> dict[str, Any]:
    """The answer to ``slice`` for an entry of the bands; outlines the evidence of a stall."""
    served, index = tracks.served, tracks.served.bands.index
    place = _place(tracks, index, entry)
    rank = index.tracks[place["track"]].rank
    stall_id = int(index.slice_id[entry])
    with served.lock:
        stall = stall_facts(served.recording, rank, stall_id) if stall_id >= 0 else None
    evidence = entries_of_slices(served.index, list(stall["evidence"]) if stall else [])
    return place | {
        "track": place["track"] + tracks.first_band,
        "band": True,
        "stall_id": stall_id if stall else None,
        "rank": rank,
        "name": band_label(BAND_CODES[int(index.category[entry])]),
        "arrows": [],
        "highlights": [_place(tracks, served.index, one) for one in evidence.values()],
    }


def _place(tracks: TimelineTracks, index: TileIndex, entry: int) -> dict[str, Any]:
    track, row = index.track_of(entry)
    origin = tracks.served.origin
    start, end = int(index.start[entry]) - origin, int(index.end[entry]) - origin
    return {"ref": entry, "track": track, "row": row, "start": start, "end": end}


def _arrow_end(tracks: TimelineTracks, entry: int) -> dict[str, int]:
    place = _place(tracks, tracks.served.index, entry)
    return {"ref": entry, "track": place["track"], "row": place["row"], "time": place["start"]}
