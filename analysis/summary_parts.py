"""What a summary is made of: states, devices, ranks, and the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..profiler.recording.errors import UsageError
from .collective_totals import CollectiveSummary
from .finding_texts import duration_text
from .findings import ColdStart, Finding
from .memory import DeviceMemory

Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class States:
    """Time of one device, or a sum over several, in each state; the four states add up to window_ns exactly.

    Attributes:
        window_ns: The whole.
        busy_ns: Time with any work: window_ns - idle_ns.
        idle_ns: The same as stall_ns.
        compute_ns: At least one compute kernel ran.
        communication_ns: A collective ran and no compute (exposed).
        data_movement_ns: A copy or memset ran and neither of the above (exposed).
        stall_ns: Nothing ran.
    """

    window_ns: int
    busy_ns: int
    idle_ns: int
    compute_ns: int
    communication_ns: int
    data_movement_ns: int
    stall_ns: int


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """One device of one rank.

    Attributes:
        rank: The rank.
        device_type: Its type; "cpu" where training threads stand in for a device.
        device_index: Its index; None for threads.
        name: The model; None where not known.
        window: From its first operation to its last, or the step or window asked for.
        steady: Sum over its steady steps; None where it has none, or a step or window was asked for.
        steady_steps: How many those are.
        step_mean_ns: Mean length of a steady step; None without.
        step_median_ns: Median; None without.
    """

    rank: int
    device_type: str
    device_index: int | None
    name: str | None
    window: States
    steady: States | None
    steady_steps: int
    step_mean_ns: int | None
    step_median_ns: int | None


@dataclass(frozen=True, slots=True)
class RankSummary:
    """One rank.

    Attributes:
        rank: The rank.
        status: running, completed, failed, killed or unknown.
        host: The host's name; None where not known.
        slices: How many slices it has.
        window: Its devices taken together: busy where any of them is.
    """

    rank: int
    status: str
    host: str | None
    slices: int
    window: States


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a recording.

    Attributes:
        verdict: One sentence: what limits the step.
        part: What was asked for, in words; "" for everything.
        findings: At most five things to do, the most time first; none where a step or window was asked for.
        cold_starts: What the ranks' first steps cost; they are in no average.
        identity: What was run, where, with which versions.
        world_size: Ranks of the job; None where not known. The recording may hold fewer.
        ranks: The ranks in the recording.
        devices: Their devices.
        overall: Sum over the ranks.
        overall_steady: Sum over the devices' steady steps; None where there are none.
        focus_rank: The rank that stalls, kernels, ops are about: the one that the others wait for if that is the first
            finding, else the one that stalls longest.
        stalls: Its largest groups by state, root cause and line, as in ``stall_groups``, with per_step_ns (None without
            steps).
        kernels: Its device work with most time, as in ``kernels``.
        ops: Its ops with most time on host or device, as in ``ops``.
        kernels_of: What those two are about, in words.
        memory: Peaks by device.
        collectives: Waiting and transfer over all ranks of the recording; None without collectives.
        waits_of_rank: Rank -> how long it waited in collectives for the last rank to arrive, ns, where known.
        waits_for_rank: Rank -> how long all others waited for it, ns; the longest first.
        losses: Counts of what is missing, by severity (data_loss, warning, info).
        notes: What to know to read the rest.
    """

    verdict: str
    part: str
    findings: tuple[Finding, ...]
    cold_starts: tuple[ColdStart, ...]
    identity: dict[str, Any]
    world_size: int | None
    ranks: tuple[RankSummary, ...]
    devices: tuple[DeviceSummary, ...]
    overall: States
    overall_steady: States | None
    focus_rank: int | None
    stalls: tuple[dict[str, Any], ...]
    kernels: tuple[dict[str, Any], ...]
    ops: tuple[dict[str, Any], ...]
    kernels_of: str
    memory: tuple[DeviceMemory, ...]
    collectives: CollectiveSummary | None
    waits_of_rank: dict[int, int]
    waits_for_rank: dict[int, int]
    losses: dict[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A step, a window, or neither of the two."""

    step: int | None
    window: Window | None

    def __post_init__(self) -> None:
        if self.step is not None and self.window is not None:
            raise UsageError("a step and a window exclude each other.", hint="Give one of the two.")

    @property
    def is_everything(self) -> bool:
        """Whether nothing was left out."""
        return self.step is None and self.window is None

    @property
    def words(self) -> str:
        """What it is, in words; "" for everything."""
        if self.step is not None:
            return f"step {self.step}"
        return "" if self.window is None else f"a window of {duration_text(self.window[1] - self.window[0])}"
