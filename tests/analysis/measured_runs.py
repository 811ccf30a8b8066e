"""Made-up measures of runs, with as much said as a test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from stallscope.analysis.run_facts import (
    CompilationMeasures,
    LaneMeasures,
    RunMeasures,
    StallPlace,
    TimePart,
    WorkRow,
)
from stallscope.analysis.run_measures import FORMAT, FORMAT_VERSION

MS = 1_000_000
Place = tuple[str, str, str | None, int | None, str | None]


def run(
    steps_ns: Sequence[int] = (),
    *,
    name: str = "run",
    places: Mapping[Place, int] | None = None,
    lanes: Sequence[LaneMeasures] | None = None,
    **other: Any,
) -> RunMeasures:
    """A run of one device: what ``places`` leave of its steps is compute."""
    places = places or {}
    if lanes is None and steps_ns:
        lanes = (lane(steps_ns, places),)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "analysis_version": 1,
        "name": name,
        "fingerprint": "",
        "created_ns": None,
        "status": "completed",
        "ranks": (0,),
        "world_size": 1,
        "missing_ranks": 0,
        "unit": "step",
        "lanes": tuple(lanes or ()),
        "stall_places": tuple(StallPlace(*place, ns) for place, ns in places.items() if ns),
        "steps_ns": tuple(steps_ns),
        "step_numbers": tuple(range(len(steps_ns))),
        "all_steps": len(steps_ns),
        "preparation_steps": 0,
        "cold_start_ns": 0,
        "preparation_ns": 0,
        "execution_ns": sum(steps_ns),
        "completion_ns": 0,
        "memory": (),
        "compilation": CompilationMeasures(0, 0, 0, 0, None, None),
        "fallbacks": (),
        "copies": (),
        "communication": None,
        "losses": {},
        "environment": {},
        "kernels": (),
        "ops": (),
        "lines": (),
    }
    return RunMeasures(**facts | other)


def lane(steps_ns: Sequence[int], places: Mapping[Place, int], *, rank: int = 0, device: str = "cuda") -> LaneMeasures:
    """One device whose waiting is at ``places`` and whose rest is compute."""
    waiting: dict[tuple[str, str], int] = {}
    for (state, cause, *_), ns in places.items():
        waiting[state, cause] = waiting.get((state, cause), 0) + ns
    parts = [TimePart("compute", "", sum(steps_ns) - sum(waiting.values()))]
    parts += [TimePart(state, cause, ns) for (state, cause), ns in waiting.items()]
    numbers = tuple(range(len(steps_ns)))
    return LaneMeasures(
        rank, device, 0, "device", numbers, tuple(steps_ns), (), tuple(part for part in parts if part.ns)
    )


def kernel(name: str, *, count: int = 1, device_ns: int = 0, host_ns: int = 0, detail: str = "") -> WorkRow:
    """A row of one of the tables of work."""
    return WorkRow(name, detail, name, count, device_ns, host_ns)


_PLACES = st.tuples(
    st.sampled_from([("stall", "input"), ("stall", "dispatch"), ("data_movement", "copy"), ("stall", "unknown")]),
    st.sampled_from(
        [(None, None, None), ("a/train.py", 3, "loop"), ("a/train.py", 9, "loop"), ("b/data.py", 1, "get")]
    ),
).map(lambda pair: (*pair[0], *pair[1]))
_ROWS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(*[st.integers(0, 10**7)] * 3), max_size=6)


@st.composite
def runs(draw: st.DrawFn) -> RunMeasures:
    """A run of one to nine steps with anything in it."""
    places = draw(st.dictionaries(_PLACES, st.integers(0, 10**6), max_size=8))
    steps = draw(st.lists(st.integers(10**7, 2**40), min_size=1, max_size=9))
    tables = {
        table: tuple(
            kernel(name, count=count, device_ns=device, host_ns=host)
            for name, (count, device, host) in draw(_ROWS).items()
        )
        for table in ("kernels", "ops", "lines")
    }
    return run(steps, name=draw(st.sampled_from("xyz")), places=places, **tables)
