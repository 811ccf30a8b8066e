"""What a device held over time, as an SVG picture."""

from __future__ import annotations

import pandas as pd

from ..wording import duration, size
from .markup import Markup, element

WIDTH, HEIGHT, RAIL, TOP = 1180, 170, 70, 14
_LINES = 4


def memory_picture(frame: pd.DataFrame, origin: int, peak_ts: int) -> Markup:
    """Allocated bytes as an area, reserved bytes as a line, and where the peak is.

    Args:
        frame: As ``memory_curve`` returns it.
        origin: What times count from, ns.
        peak_ts: When the peak is, ns.
    """
    start, end = int(frame["ts"].iloc[0]), int(frame["ts"].iloc[-1])
    allocated, reserved = frame["allocated_bytes"], frame["reserved_bytes"]
    most = max(int(allocated.max()), int(reserved.fillna(0).max()), 1)

    def x(ts: int) -> float:
        return RAIL + (ts - start) * (WIDTH - RAIL) / max(end - start, 1)

    def y(held: int) -> float:
        return TOP + (HEIGHT - TOP - 20) * (1 - held / most)

    def steps(held: pd.Series) -> str:
        """The corners of a line that keeps its value until the next."""
        known = [(x(int(ts)), y(int(h))) for ts, h in zip(frame["ts"], held, strict=True) if not pd.isna(h)]
        if not known:
            return ""
        corners = [f"M{known[0][0]:.1f} {known[0][1]:.1f}", *(f"H{at:.1f}V{level:.1f}" for at, level in known[1:])]
        return "".join([*corners, f"H{x(end):.1f}"])

    rules = [
        [
            element("line", x1=RAIL, x2=WIDTH, y1=f"{y(level):.1f}", y2=f"{y(level):.1f}", class_="rule"),
            element("text", size(level), x=4, y=f"{y(level) + 4:.1f}", class_="rail"),
        ]
        for level in (most * n // _LINES for n in range(_LINES + 1))
    ]
    area = f"{steps(allocated)}V{y(0):.1f}H{x(start):.1f}Z"
    at = f"{x(peak_ts):.1f}"
    return element(
        "svg",
        element("title", f"memory over time, at most {size(int(allocated.max()))} allocated"),
        rules,
        element("path", d=area, class_="held"),
        element("path", d=steps(reserved), class_="reserved") if steps(reserved) else None,
        element("line", x1=at, x2=at, y1=TOP, y2=f"{y(0):.1f}", class_="mark"),
        element("text", duration(start - origin), x=RAIL, y=HEIGHT - 4, class_="rail"),
        element("text", duration(end - origin), x=WIDTH, y=HEIGHT - 4, text_anchor="end", class_="rail"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", class_="picture", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip
