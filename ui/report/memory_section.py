"""Memory of a rank: each device over time, who holds its peak, growth from step to step, bytes copied each way."""

from __future__ import annotations

import pandas as pd

from ...analysis.copies import copies
from ...analysis.memory import DeviceMemory, memory_peaks
from ...analysis.memory_curve import memory_curve
from ...analysis.memory_growth import memory_growth
from ...analysis.memory_holders import HolderKind, memory_holders
from ..served import Served
from ..timeline_meta import device_label
from ..wording import ABSENT, duration, share, size
from .markup import Markup, element, section, table
from .memory_picture import memory_picture

_MOST_DEVICES, _MOST_HOLDERS = 4, 10


def memory_section(served: Served, rank: int) -> Markup:
    """The section; says so where no allocation was recorded."""
    devices = memory_peaks(served.recording, rank=rank)
    of = f" of rank {rank}" if len(served.recording.ranks) > 1 else ""
    shown = [_device(served, rank, number, device) for number, device in enumerate(devices[:_MOST_DEVICES])]
    nothing = None if devices else element("p", "No allocation is recorded.", class_="note")
    return section(f"Memory{of}", nothing, shown, _copies(served, rank))


def _device(served: Served, rank: int, number: int, device: DeviceMemory) -> list[Markup]:
    name = "The host" if device.device_index is None else device_label(device.device_type, device.device_index)
    after = duration(device.peak_ts - served.origin)
    basis = "" if device.basis == "allocator" else ", counting the blocks that the recording saw"
    reserved = f", of {size(device.peak_reserved_bytes)} reserved" if device.peak_reserved_bytes is not None else ""
    words = f"{name}: {size(device.peak_allocated_bytes)} at its peak, {after} after the start{reserved}{basis}"
    curve = memory_curve(served.recording, rank=rank, device=number, bins=600)
    growth = [
        element("p", f"From step to step: {one.verdict}; {one.note}.", class_="note")
        for one in memory_growth(served.recording, rank=rank)
        if (one.device_type, one.device_index) == (device.device_type, device.device_index)
    ]
    picture = memory_picture(curve, served.origin, device.peak_ts)
    held = [*_holders(served, rank, number, "op"), *_holders(served, rank, number, "line")]
    return [element("h3", words), picture, *growth, *held]


def _holders(served: Served, rank: int, number: int, by: HolderKind) -> list[Markup]:
    frame = memory_holders(served.recording, rank=rank, device=number, by=by)
    if by == "line" and len(frame) == 1:
        return []  # no line is known
    rows = [
        [
            element("span", row["holder"], class_="mono"),
            size(row["bytes"]),
            share(row["share_frac"]),
            ABSENT if pd.isna(row["blocks"]) else f"{int(row['blocks']):,}",
        ]
        for row in frame.head(_MOST_HOLDERS).to_dict("records")
    ]
    return [table([f"held at the peak, by {by}", "bytes", "share", "blocks"], rows, numbers=(1, 2, 3))]


def _copies(served: Served, rank: int) -> list[Markup]:
    frame = copies(served.recording, rank=rank)
    if not len(frame):
        return []
    rows = [
        [
            row["direction"].replace("_", " "),
            "" if pd.isna(row["memory"]) else row["memory"],
            f"{row['count']:,}",
            size(row["bytes"]) if row["bytes"] else ABSENT,
            duration(row["total_ns"]),
            ABSENT if pd.isna(row["bytes_per_s"]) else f"{size(row['bytes_per_s'])}/s",
        ]
        for row in frame.to_dict("records")
    ]
    head = [f"copied in {frame.attrs['selection']}", "memory", "times", "bytes", "time", "rate"]
    return [table(head, rows, numbers=(2, 3, 4, 5))]
