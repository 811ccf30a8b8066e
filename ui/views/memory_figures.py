"""The charts of the memory page: what is held over time, and from step to step."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analysis.steps import host_steps
from ..served import Served
from ..wording import size

ALLOCATED, RESERVED, MARK = "#4C9BFF", "#8A8F98", "#E07B39"
_MOST_STEPS = 60
_MOST_LABELS = 20
_TOP, _BOTTOM, _LABELS = 38, 34, 15
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def curve_figure(
    frame: pd.DataFrame, served: Served, rank: int, window: tuple[int, int] | None, at: int
) -> dict[str, Any]:
    """Allocated and reserved bytes over time, the beginning of each step, and the moment that the tables are about.

    Args:
        frame: As ``memory_curve`` returns it.
        served: The recording.
        rank: Whose steps are marked.
        window: What is shown, ns; all of the frame by default.
        at: The moment, ns.
    """
    origin = served.origin
    since = [int(ts) - origin for ts in frame["ts"]]
    end = (window[1] if window else int(frame["ts"].iloc[-1])) - origin
    factor, unit = _unit(max(int(frame["allocated_bytes"].max()), int(frame["reserved_bytes"].fillna(0).max())))
    series = [("allocated", frame["allocated_bytes"], ALLOCATED, "solid")]
    if frame["reserved_bytes"].notna().any():
        series.append(("reserved", frame["reserved_bytes"], RESERVED, "dot"))
    per, time_unit = (1e9, "s") if end - since[0] >= 2_000_000_000 else (1e6, "ms")
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": [one / per for one in [*since, end]],
            "y": [None if pd.isna(one) else one / factor for one in [*values, values.iloc[-1]]],
            "text": ["" if pd.isna(one) else size(one) for one in [*values, values.iloc[-1]]],
            "customdata": [*since, end],
            "line": {"color": colour, "width": 1.5, "shape": "hv", "dash": dash},
            "fill": "tozeroy" if name == "allocated" else "none",
            "fillcolor": "rgba(76,155,255,0.18)",
            "hovertemplate": f"{name}: %{{text}}<extra></extra>",
        }
        for name, values, colour, dash in series
    ]
    shapes, notes = _marks(served, rank, since[0], end, per)
    if since[0] <= at - origin <= end:
        shapes.append(_vertical((at - origin) / per, MARK, 2.0))
    plain = _layout(256, {"title": {"text": time_unit}, "range": [since[0] / per, end / per]}, unit)
    return {"data": lines, "layout": plain | {"shapes": shapes, "annotations": notes, "hovermode": "x unified"}}


def steps_figure(frame: pd.DataFrame) -> dict[str, Any]:
    """The least and most that a device held in each step; ``frame`` as ``memory_steps`` returns it, of one device."""
    factor, unit = _unit(int(frame["most_bytes"].max()))
    lines = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": [str(step) for step in frame["step"]],
            "y": [one / factor for one in frame[column]],
            "text": [size(one) for one in frame[column]],
            "line": {"color": colour, "width": 1.5},
            "hovertemplate": f"{name}: %{{text}}<extra>step %{{x}}</extra>",
        }
        for name, column, colour in (("most", "most_bytes", MARK), ("least", "least_bytes", ALLOCATED))
    ]
    return {"data": lines, "layout": _layout(216, {"type": "category", "title": {"text": "step"}}, unit)}


def _layout(height: int, horizontal: dict[str, Any], unit: str) -> dict[str, Any]:
    axis = {"gridcolor": "rgba(128,128,128,0.22)", "zeroline": False, "fixedrange": True}
    return {
        "height": height,
        "margin": {"l": 56, "r": 8, "t": _TOP, "b": _BOTTOM},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 11, "color": "#808a96"},
        # Above the labels of the steps, which stand right on the plot.
        "legend": {
            "orientation": "h",
            "y": 1 + _LABELS / (height - _TOP - _BOTTOM),
            "yanchor": "bottom",
            "x": 1,
            "xanchor": "right",
        },
        "showlegend": True,
        "xaxis": axis | horizontal,
        "yaxis": axis | {"title": {"text": unit}, "rangemode": "tozero"},
    }


def _marks(
    served: Served, rank: int, start: int, end: int, per: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A line where each step of the host begins, with its number where there are few."""
    cut = host_steps(served.recording, rank)
    starts = zip(cut.numbers.tolist(), (cut.starts - served.origin).tolist(), strict=True)
    shown = [(number, at) for number, at in starts if start <= at <= end]
    if len(shown) > _MOST_STEPS:
        return [], []
    notes = [
        {"x": at / per, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": "left", "text": f"step {number}",
         "showarrow": False, "font": {"size": 10}}
        for number, at in (shown if len(shown) <= _MOST_LABELS else [])
        if at < end - (end - start) // 20  # no room for the last one
    ]  # fmt: skip
    return [_vertical(at / per, "rgba(128,128,128,0.5)", 1.0) for _, at in shown], notes


def _vertical(at: float, colour: str, width: float) -> dict[str, Any]:
    line = {"color": colour, "width": width}
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _unit(most: int) -> tuple[int, str]:
    return next(((factor, unit) for factor, unit in _UNITS if most >= factor), (1, "B"))
