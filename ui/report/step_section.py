"""A typical step as a picture, or all of a recording that marks no steps."""

from __future__ import annotations

from ...analysis.typical_step import typical_step
from ..served import Served
from ..wording import duration
from .markup import Markup, element, section
from .overview_sections import swatch
from .step_picture import codes_shown, step_picture


def step_section(served: Served, rank: int) -> Markup:
    """The step of median length of a rank."""
    found = typical_step(served.recording, rank)
    of = f" of rank {rank}" if len(served.recording.ranks) > 1 else ""
    if found is None:
        start, end = served.extent
        title, note = f"All{of}", "The recording marks no steps, so this is all of it."
    else:
        start, end = found.start, found.end
        among = f"{found.steady} steady steps" if found.steady else "the steps, of which none is steady"
        title = f"A typical step{of}: step {found.step}, {duration(found.dur)}"
        note = (
            f"The median of {among}, from where its host begins it to where its device ends it. "
            "The first row of a device says what it did or waited for; rest the pointer on a piece for its name."
        )
    legend = element("div", [swatch(code) for code in codes_shown(served, rank, start, end)], class_="legend")
    return section(title, legend, step_picture(served, rank, start, end), note=note)
