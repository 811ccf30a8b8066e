"""One stretch of a rank's time as an SVG picture: what its devices did and waited for, its streams, its threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...analysis.device_bands import BAND_CODES
from ...analysis.tile_index import TileIndex
from ...analysis.tiles import BINS, tile
from ...profiler.recording.categories import CATEGORIES
from ..colours import BAND_COLOURS, SLICE_COLOURS, UNKNOWN_COLOUR
from ..served import Served
from ..timeline_meta import band_label, device_label
from ..wording import duration
from .markup import Markup, element

WIDTH, RAIL = 1180, 150
_PLOT = WIDTH - RAIL
_LINE, _BAND, _GAP = 12, 18, 6
_MOST_LINES = 12
"""Deeper slices of a thread are left out of the picture."""

_MOST_THREADS = 3
_MOST_STREAMS = 12
_LEAST_PIXELS = 1.0
"""What is narrower is drawn together with what follows on its heels, without a name."""

_LEAST_LABEL = 34
_PIXELS_A_LETTER = 6.0


@dataclass(frozen=True, slots=True)
class _Piece:
    """A rectangle: from and to in pixels of the plot, the line, its colour and name, and how much of it is filled."""

    left: float
    right: float
    line: int
    colour: str
    name: str
    cover: float


def step_picture(served: Served, rank: int, start: int, end: int) -> Markup:
    """The picture of ``[start, end)`` (ns) of a rank; its text tells what the colours mean when the pointer rests."""
    parts: list[Markup] = []
    top = 22
    for label, height, pieces in _rows(served, rank, start, end):
        if not pieces:
            continue
        lines = max(piece.line for piece in pieces) + 1
        parts.append(element("text", label[:26], x=4, y=top + height - 3, class_="rail"))
        parts += [_drawn(piece, top, height) for piece in pieces]
        top += lines * height + _GAP
        parts.append(element("line", x1=0, x2=WIDTH, y1=top - _GAP / 2, y2=top - _GAP / 2, class_="rule"))
    ruler = list(_ruler(end - start, top))
    described = f"rank {rank} over {duration(end - start)}: devices, streams and threads"
    return element(
        "svg", element("title", described), ruler, parts,
        viewBox=f"0 0 {WIDTH} {top}", role="img", class_="picture", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def codes_shown(served: Served, rank: int, start: int, end: int) -> list[str]:
    """The states and causes that the picture's bands show, in the order of ``BAND_CODES``."""
    index, found = served.bands.index, set()
    for number, band in enumerate(served.bands.devices):
        if band.rank == rank:
            for begin, finish, _, _, _, code, _ in _entries(index, number, start, end):
                if finish > begin:
                    found.add(BAND_CODES[code])
    return [code for code in BAND_CODES if code in found]


def _rows(served: Served, rank: int, start: int, end: int) -> Iterator[tuple[str, int, list[_Piece]]]:
    """The label, height of a line and pieces of each track: devices with their streams, then the busiest threads."""
    tracks = {row["track_id"]: row for row in served.recording.table("tracks", ranks=(rank,)).to_pylist()}
    numbers = [number for number, track in enumerate(served.index.tracks) if track.rank == rank]
    for number, band in enumerate(served.bands.devices):
        if band.rank != rank:
            continue
        label = device_label(band.device_type, band.device_index)
        yield label, _BAND, _pieces(served.bands.index, number, start, end, band=True)
    streams = [n for n in numbers if tracks.get(served.index.tracks[n].track_id, {}).get("kind") != "thread"]
    for number in streams[:_MOST_STREAMS]:
        name = tracks.get(served.index.tracks[number].track_id, {}).get("name") or "stream"
        yield name, _LINE + 2, _pieces(served.index, number, start, end)
    threads = [n for n in numbers if n not in streams]
    threads.sort(key=lambda n: -_count(served.index, n, start, end))
    for number in threads[:_MOST_THREADS]:
        name = tracks.get(served.index.tracks[number].track_id, {}).get("name") or "thread"
        yield name, _LINE, _pieces(served.index, number, start, end)


def _entries(
    index: TileIndex, track: int, start: int, end: int
) -> Iterator[tuple[float, float, int, float, int, int, int]]:
    """What a track shows: from and to (ns from the start), line, cover, name, category, count; line by line."""
    level = max(0, int(np.log2(max(end - start, 1) / BINS)))
    found = []
    for number in range(-(-(end - start) // (BINS << level))):
        one, base = tile(index, track, level, number, start), number * (BINS << level)
        new = (
            np.ones(len(one.start), dtype=bool) if number == 0 else one.start >= 0
        )  # the others were in the tile before
        begin, finish = base + one.start, base + one.start + one.dur
        keep = new & (finish > 0) & (begin < end - start) & (one.line < _MOST_LINES)
        columns = (begin, finish, one.line, one.cover, one.name, one.category, one.count)
        found += list(zip(*(column[keep].tolist() for column in columns), strict=True))
    found.sort(key=lambda entry: (entry[2], entry[0]))
    yield from found


def _pieces(index: TileIndex, track: int, start: int, end: int, *, band: bool = False) -> list[_Piece]:
    scale = _PLOT / max(end - start, 1)
    made: list[_Piece] = []
    for begin, finish, line, cover, name, category, count in _entries(index, track, start, end):
        left, right = max(begin, 0) * scale, min(finish, end - start) * scale
        code = BAND_CODES[category] if band else CATEGORIES[category]
        colour = (BAND_COLOURS if band else SLICE_COLOURS).get(code, UNKNOWN_COLOUR)
        text = band_label(code) if band else index.names[name]
        text = (
            f"{text}, {duration(finish - begin)}" if count == 1 else f"{count} short slices, {duration(finish - begin)}"
        )
        last = made[-1] if made else None
        narrow = right - left < _LEAST_PIXELS
        if (
            narrow
            and last
            and last.line == line
            and last.colour == colour
            and left - last.right < 0.5
            and not last.name
        ):
            made[-1] = _Piece(last.left, right, line, colour, "", max(last.cover, cover))
        else:
            made.append(_Piece(left, right, line, colour, "" if narrow else text, cover))
    return made


def _count(index: TileIndex, track: int, start: int, end: int) -> int:
    return sum(entry[6] for entry in _entries(index, track, start, end))


def _drawn(piece: _Piece, top: int, height: int) -> Markup:
    y, width = top + piece.line * height, max(piece.right - piece.left, 0.3)
    opacity = None if piece.cover >= 1 else f"{0.35 + 0.65 * piece.cover:.2f}"
    where = {"x": f"{RAIL + piece.left:.1f}", "y": y, "width": f"{width:.1f}", "height": height - 1}
    title = element("title", piece.name) if piece.name else None
    rectangle = element("rect", title, fill=piece.colour, fill_opacity=opacity, **where)
    if width < _LEAST_LABEL or not piece.name:
        return rectangle
    label = piece.name.rpartition(", ")[0][: int(width / _PIXELS_A_LETTER)]
    text = element("text", label, x=f"{RAIL + piece.left + 3:.1f}", y=y + height - 4, class_="on")
    return Markup(rectangle + text)


def _ruler(span: int, bottom: int) -> Iterator[Markup]:
    """Lines at round times, from the start of the picture."""
    step = next((unit * 10**power for power in range(18) for unit in (1, 2, 5) if unit * 10**power * 9 >= span), span)
    for at in range(0, span, max(step, 1)):
        x = RAIL + at * _PLOT / max(span, 1)
        yield element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=14, y2=bottom, class_="rule")
        yield element("text", f"+{duration(at)}" if at else "0", x=f"{x + 2:.1f}", y=11, class_="rail")
