"""What findings are chosen from: one kind of loss on one device, measured over the time that counts."""

from __future__ import annotations

from dataclasses import dataclass

from .device_activity import DeviceActivity
from .timeline import Ints


@dataclass(frozen=True, eq=False)
class Scope:
    """The time that a device is judged by.

    Attributes:
        rank: The rank.
        device: The device.
        starts: Where its windows begin, ns.
        ends: Where they end, ns.
        steps: How many steady steps they are; 0 for one window without steps.
        total_ns: Their length.
        states: The sums of ``step_breakdown`` over them.
    """

    rank: int
    device: DeviceActivity
    starts: Ints
    ends: Ints
    steps: int
    total_ns: int
    states: dict[str, int]

    @property
    def unit(self) -> str:
        """What times are given per."""
        return "step" if self.steps else "window"

    @property
    def noun(self) -> str:
        """What waits."""
        return "the device" if self.device.device is not None else "the training thread"

    def per_unit(self, ns: int) -> int:
        """The mean per step of a sum over all steps; the sum itself without steps."""
        return ns // max(self.steps, 1)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One kind of loss on one device.

    Attributes:
        scope: Where.
        kind: A key of ``finding_texts.WORDING``.
        about: What to add to the title; "" for nothing.
        dur_ns: The time lost in all of the scope.
        evidence: The numbers, as a sentence.
        slice_ids: Slices to look at, the longest case first.
        confidence: low, medium or high.
        file: Where in the source; None where not known.
        line: The line.
        function: The function.
        line_source: As in ``stalls``.
        peer: The rank that was waited for; None where it is no waiting for a rank.
    """

    scope: Scope
    kind: str
    about: str
    dur_ns: int
    evidence: str
    slice_ids: tuple[int, ...]
    confidence: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    line_source: str | None = None
    peer: int | None = None

    @property
    def per_unit_ns(self) -> int:
        """The time lost per step, or in the window."""
        return self.scope.per_unit(self.dur_ns)
