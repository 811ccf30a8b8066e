"""The timeline's data: routes below ``/data/<recording>/``, read by ui/timeline/src/api.js.

Every argument is a number that is checked; a wrong one is answered with 400 and a sentence. Times are ns from the start
of the recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import flask

from ..analysis.counter_bins import counter_bins
from ..analysis.mapped_files import let_go
from ..analysis.tile_index import TileIndex
from ..analysis.tiles import HIGHEST_LEVEL, encode, tile
from .picked import picked_piece, picked_slice
from .served import Served
from .timeline_meta import timeline_meta
from .timeline_tracks import TimelineTracks

NAMES_IN_BLOCK = 1024
"""As BLOCK in ui/timeline/src/names.js."""

MOST_TRACKS = 512
"""Of how many tracks one request may ask tiles."""

_HIGHEST = (1 << 53) - 1


def data_routes(recordings: Mapping[str, Served]) -> flask.Blueprint:
    """The routes for recordings by their keys; below ``rank/N`` the same, with ``meta`` of that rank alone."""
    blueprint = flask.Blueprint("data", __name__, url_prefix="/data/<key>")
    answers = {
        "meta": _meta,
        "tiles": _tiles,
        "names": _names,
        "counter": _counter,
        "slice": _slice,
        "near": _near,
    }
    for name, answer in answers.items():

        def view(key: str, rank: int | None = None, answer: Any = answer) -> flask.Response:
            served = recordings.get(key)
            if served is None:
                flask.abort(404, "there is no such recording")
            if rank is not None and rank not in served.recording.ranks:
                flask.abort(404, f"the recording has no rank {rank}")
            response: flask.Response = _meta(served.tracks, rank) if answer is _meta else answer(served.tracks)
            response.headers["Cache-Control"] = "no-store"
            return response

        blueprint.add_url_rule(f"/{name}", name, view, methods=["GET"])
        blueprint.add_url_rule(f"/rank/<int:rank>/{name}", f"{name}_of_rank", view, methods=["GET"])
    return blueprint


def whole_number(name: str, low: int, high: int) -> int:
    """An argument of the request that must be a decimal number in ``low..high``; 400 for anything else."""
    text = flask.request.args.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and low <= int(text) <= high):
        flask.abort(400, f"{name} must be a whole number from {low} to {high}")
    return int(text)


def _meta(tracks: TimelineTracks, rank: int | None) -> flask.Response:
    return flask.jsonify(timeline_meta(tracks, rank))


def _tiles(tracks: TimelineTracks) -> flask.Response:
    level, number = whole_number("level", 0, HIGHEST_LEVEL), whole_number("index", 0, _HIGHEST)
    served = tracks.served
    if number * (1024 << level) > served.extent[1] - served.extent[0]:
        flask.abort(400, "the tile lies behind the end of the recording")
    parts = flask.request.args.get("tracks", "").split(",")
    most = tracks.first_counter - 1
    if len(parts) > MOST_TRACKS or not all(p.isascii() and p.isdecimal() and len(p) < 10 for p in parts):
        flask.abort(400, f"tracks must be at most {MOST_TRACKS} numbers with commas between them")
    numbers = [int(part) for part in parts]
    if max(numbers) > most:
        flask.abort(400, f"tracks must be numbers from 0 to {most}")
    found = []
    for one in numbers:
        if one < tracks.first_band:
            found.append(tile(served.index, one, level, number, served.origin))
        else:
            band = tile(served.bands.index, one - tracks.first_band, level, number, served.origin)
            found.append(replace(band, track=one))
        let_go()
    return _binary(encode(found, level))


def _names(tracks: TimelineTracks) -> flask.Response:
    names = tracks.served.index.names
    block = whole_number("block", 0, max(0, (len(names) - 1) // NAMES_IN_BLOCK))
    return flask.jsonify(names[block * NAMES_IN_BLOCK : (block + 1) * NAMES_IN_BLOCK])


def _counter(tracks: TimelineTracks) -> flask.Response:
    first, count = tracks.first_counter, len(tracks.counters)
    if not count:
        flask.abort(400, "the recording has no counters")
    track = whole_number("track", first, first + count - 1)
    level, number = whole_number("level", 0, HIGHEST_LEVEL), whole_number("index", 0, _HIGHEST)
    if number * (1024 << level) > tracks.served.extent[1] - tracks.served.extent[0]:
        flask.abort(400, "the tile lies behind the end of the recording")
    least, greatest = counter_bins(tracks.counters[track - first], level, number, tracks.served.origin)
    return _binary(least.astype("<f8").tobytes() + greatest.astype("<f8").tobytes())


def _asked(served: Served) -> tuple[int, bool, TileIndex]:
    band = whole_number("band", 0, 1) == 1
    index = served.bands.index if band else served.index
    if not len(index):
        flask.abort(400, "the recording has no slices")
    return whole_number("ref", 0, len(index) - 1), band, index


def _slice(tracks: TimelineTracks) -> flask.Response:
    entry, band, _ = _asked(tracks.served)
    return flask.jsonify(picked_piece(tracks, entry) if band else picked_slice(tracks, entry))


def _near(tracks: TimelineTracks) -> flask.Response:
    entry, _, index = _asked(tracks.served)
    way = {"1": 1, "-1": -1}.get(flask.request.args.get("way", ""))
    if way is None:
        flask.abort(400, "way must be 1 or -1")
    row = index.row_of(entry)
    other = entry + way
    inside = int(index.row_start[row]) <= other < int(index.row_start[row + 1])
    return flask.jsonify(other if inside else None)


def _binary(content: bytes) -> flask.Response:
    return flask.Response(content, mimetype="application/octet-stream")
