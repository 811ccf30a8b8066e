"""The timeline's data against the analysis and the recording, and every way to ask for it wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stallscope.analysis.device_bands import BAND_CODES
from stallscope.analysis.step_breakdown import step_breakdown
from stallscope.analysis.tiles import BINS, MAGIC
from stallscope.profiler.recording.reader import Recording
from stallscope.ui.served import Served
from tests.ui.recordings import HOSTILE, MS, START, STEPS

COLUMNS = [
    ("start", "<f4"), ("dur", "<f4"), ("cover", "<f4"), ("entry", "<u4"), ("name", "<u4"), ("count", "<u4"),
    ("line", "<u2"), ("category", "u1"),
]  # fmt: skip


class Data:
    """Asks the routes of one recording."""

    def __init__(self, client: Any, key: str) -> None:
        self.client, self.key = client, key

    def get(self, path: str) -> Any:
        return self.client.get(f"/data/{self.key}/{path}")

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.get_data(as_text=True)
        return answer.json

    def tiles(self, level: int, number: int, tracks: list[int]) -> dict[int, dict[str, Any]]:
        """As ui/timeline/src/tiles.js reads them."""
        answer = self.get(f"tiles?level={level}&index={number}&tracks={','.join(map(str, tracks))}")
        assert answer.status_code == 200, answer.get_data(as_text=True)
        content = answer.get_data()
        magic, told, count, total = np.frombuffer(content, "<u4", 4).tolist()
        assert (magic, told, count) == (MAGIC, level, len(tracks))
        pairs = np.frombuffer(content, "<u4", 2 * len(tracks), 16).reshape(-1, 2)
        offset, columns = 16 + 8 * len(tracks), {}
        for name, kind in COLUMNS:
            columns[name] = np.frombuffer(content, kind, total, offset)
            offset += columns[name].nbytes
        assert offset == len(content)
        cuts = np.concatenate([[0], np.cumsum(pairs[:, 1])]).astype(int).tolist()
        return {
            int(track): {name: values[cuts[n] : cuts[n + 1]] for name, values in columns.items()}
            for n, track in enumerate(pairs[:, 0])
        }


@pytest.fixture
def data(client: Any, served: Served) -> Data:
    return Data(client, served.key)


def nodes(tree: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for node in tree for one in [node, *nodes(node.get("children", []))]]


def whole_level(span: int) -> int:
    level = 0
    while BINS << level < span:
        level += 1
    return level


def test_meta_has_every_track_once(data: Data, recording: Recording) -> None:
    meta = data.json("meta")
    every = nodes(meta["tree"])
    tracks = [node["track"] for node in every if "track" in node]
    assert sorted(tracks) == list(range(len(tracks)))
    with_slices = set(recording.table("slices", columns=["track_id"])["track_id"].to_pylist())
    kinds = [node["kind"] for node in every]
    assert kinds.count("thread") + kinds.count("stream") == len(with_slices)
    assert kinds.count("band") == kinds.count("counter") == 2
    assert meta["span"] == STEPS * 10 * MS
    assert meta["origin"] == str(START)
    assert len(meta["bands"]) == len(meta["bandLabels"])
    assert len({node["key"] for node in every}) == len(every)
    assert all(len(steps) == STEPS for steps in meta["steps"].values())
    assert {(loss["start"], loss["end"]) for loss in meta["losses"]} == {(12 * MS, 13 * MS)}


def test_tiles_hold_every_slice(data: Data, recording: Recording) -> None:
    meta = data.json("meta")
    slices = [node["track"] for node in nodes(meta["tree"]) if node["kind"] in ("thread", "stream")]
    found = data.tiles(whole_level(meta["span"]), 0, slices)
    assert sum(int(tile["count"].sum()) for tile in found.values()) == recording.table("slices").num_rows
    fine = [data.tiles(10, number, slices) for number in range(1 + meta["span"] // (BINS << 10))]
    singles = {int(e) for tiles in fine for tile in tiles.values() for e in tile["entry"][tile["count"] == 1]}
    assert len(singles) == recording.table("slices").num_rows


def test_bands_add_up_to_the_breakdown(data: Data, recording: Recording) -> None:
    meta = data.json("meta")
    bands = [node["track"] for node in nodes(meta["tree"]) if node["kind"] == "band"]
    frame = step_breakdown(recording)
    frame = frame[frame["step"].isna()]
    for track, expected in zip(bands, frame.to_dict("records"), strict=True):
        sums = dict.fromkeys(BAND_CODES, 0)
        for number in range(1 + meta["span"] // (BINS << 8)):
            tile = data.tiles(8, number, [track])[track]
            begins = tile["start"] >= 0  # a piece that reaches into several tiles is counted where it begins
            for code, dur in zip(tile["category"][begins], tile["dur"][begins], strict=True):
                sums[BAND_CODES[code]] += int(dur)
        stall = sum(ns for code, ns in sums.items() if code not in ("compute", "communication", "data_movement"))
        # Lengths travel as float32, exact to 2**24 ns.
        assert sums["compute"] == expected["compute_ns"]
        assert sums["data_movement"] == expected["data_movement_ns"]
        assert stall == expected["stall_ns"]


def test_names_come_in_blocks_of_1024(data: Data, served: Served) -> None:
    assert data.json("names?block=0") == served.index.names
    assert f"gemm {HOSTILE}" in served.index.names
    assert data.get("names?block=1").status_code == 400


def test_a_counter_holds_its_value_until_the_next(data: Data) -> None:
    meta = data.json("meta")
    counter = next(node for node in nodes(meta["tree"]) if node["kind"] == "counter")
    level = whole_level(meta["span"])
    content = np.frombuffer(data.get(f"counter?track={counter['track']}&level={level}&index=0").get_data(), "<f8")
    least, greatest = content[:BINS], content[BINS:]
    at = (np.arange(STEPS) * 10 * MS >> level) + 1
    assert least[at].tolist() == greatest[at].tolist() == [100.0 + n for n in range(STEPS)]
    assert (counter["least"], counter["most"]) == (0, 100.0 + STEPS - 1)


def test_a_picked_kernel_has_the_arrow_of_its_launch(data: Data, served: Served, recording: Recording) -> None:
    flow = recording.table("flows", ranks=1).to_pylist()[0]
    entry = int(np.flatnonzero(served.index.slice_id == flow["to_slice_id"])[0])
    picked = data.json(f"slice?ref={entry}&band=0")
    assert picked["slice_id"] == flow["to_slice_id"]
    assert picked["rank"] == 1
    assert picked["name"] == f"gemm {HOSTILE}"
    assert (picked["start"], picked["end"]) == (6_300_000, 9_300_000)
    [arrow] = picked["arrows"]
    assert arrow["to"] == {"ref": entry, "track": picked["track"], "row": picked["row"], "time": picked["start"]}
    assert int(served.index.slice_id[arrow["from"]["ref"]]) == flow["from_slice_id"]


def test_a_picked_stall_outlines_its_evidence(data: Data, served: Served) -> None:
    index = served.bands.index
    longest = int(np.argmax(np.where(index.slice_id >= 0, index.end - index.start, 0)))
    picked = data.json(f"slice?ref={longest}&band=1")
    assert picked["band"] is True
    assert picked["stall_id"] == int(index.slice_id[longest])
    assert picked["track"] >= len(served.index.tracks)
    assert picked["highlights"]


def test_near_stays_on_the_row(data: Data, served: Served) -> None:
    index = served.index
    for row in range(len(index.row_start) - 1):
        first, last = int(index.row_start[row]), int(index.row_start[row + 1])
        walked = [first]
        while (after := data.json(f"near?ref={walked[-1]}&way=1&band=0")) is not None:
            assert data.json(f"near?ref={after}&way=-1&band=0") == walked[-1]
            walked.append(after)
        assert walked == list(range(first, last))


@pytest.mark.parametrize(
    "path",
    [
        "tiles", "tiles?level=0&index=0&tracks=", "tiles?level=0&index=0&tracks=0,", "tiles?level=0&index=0&tracks=-1",
        "tiles?level=0&index=0&tracks=99999", "tiles?level=53&index=0&tracks=0", "tiles?level=-1&index=0&tracks=0",
        "tiles?level=1.5&index=0&tracks=0", "tiles?level=0&index=99999999999999999999&tracks=0",
        "tiles?level=52&index=9007199254740991&tracks=0", "tiles?level=0&index=0&tracks=0;1",
        "tiles?level=&index=0&tracks=0",
        "tiles?level=%D9%A1&index=0&tracks=0", "tiles?level=0&index=0&tracks=" + ",".join(["0"] * 513),
        "names", "names?block=-1", "names?block=1e3", "names?block=99", "counter?track=0&level=0&index=0",
        "counter?track=99999&level=0&index=0", "slice?ref=99999999&band=0", "slice?ref=0&band=2", "slice?ref=0",
        "slice?ref=-1&band=0", "near?ref=0&way=2&band=0", "near?ref=0&band=0", "near?ref=x&way=1&band=0",
    ],
)  # fmt: skip
def test_a_wrong_argument_is_answered_with_400(data: Data, path: str) -> None:
    assert data.get(path).status_code == 400


def test_an_unknown_recording_is_not_found(client: Any) -> None:
    for key in ("0", "..", "ffffffffffffffff"):
        assert client.get(f"/data/{key}/meta").status_code == 404


def test_the_recording_starts_at_the_origin(served: Served) -> None:
    assert served.extent == (START, START + STEPS * 10 * MS)
