"""The figures that are kept of a run: frozen, in exact integers, and nothing but plain values.

Sums are over the *steady device steps*: every steady step of every device (or of the threads in a device's place)
counts once, so that a sum divided by ``RunMeasures.device_steps`` is the mean step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["step", "recording"]


@dataclass(frozen=True, slots=True)
class TimePart:
    """Time in one state for one root cause; the parts of a lane add up to its steady steps.

    Attributes:
        state: compute, communication, data_movement or stall.
        cause: Root cause, as in ``stalls``; "" for compute and communication, which need none.
        ns: The sum over the steady steps.
    """

    state: str
    cause: str
    ns: int


@dataclass(frozen=True, slots=True)
class StallPlace:
    """Stalls or exposed copies of one root cause at one line, over the steady device steps.

    Attributes:
        state: stall or data_movement.
        cause: Root cause.
        file: Where in the source; None where no line is known.
        line: The line; None where it is not known.
        function: The function; None where it is not known.
        ns: The sum; over the lines of a cause it adds up to that cause's parts.
    """

    state: str
    cause: str
    file: str | None
    line: int | None
    function: str | None
    ns: int


@dataclass(frozen=True, slots=True)
class LaneMeasures:
    """One device of one rank, or the training threads in its place.

    Attributes:
        rank: The rank.
        device_type: As in ``step_breakdown``.
        device_index: As in ``step_breakdown``; None for threads.
        basis: How steps were cut: ``device`` or ``host``; "" for a whole recording.
        numbers: The numbers of its steady steps, in the order of time.
        steps_ns: How long each took.
        paused: Numbers of steady steps that are left out since the recorder held the program up in them, to write.
        parts: What they were made of: adds up to the sum of ``steps_ns``, exactly.
    """

    rank: int
    device_type: str
    device_index: int | None
    basis: str
    numbers: tuple[int, ...]
    steps_ns: tuple[int, ...]
    paused: tuple[int, ...]
    parts: tuple[TimePart, ...]


@dataclass(frozen=True, slots=True)
class MemoryMeasure:
    """Peak memory of one device of one rank; see ``DeviceMemory`` for ``basis``."""

    rank: int
    device_type: str
    device_index: int | None
    basis: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int | None


@dataclass(frozen=True, slots=True)
class PlacedCount:
    """Something counted at one place of the source; ``file`` and ``line`` are None where it is not known."""

    name: str
    count: int
    file: str | None
    line: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CompiledPlace:
    """Compilations of one op at one line, over the whole recording.

    Attributes:
        name: The innermost op that waited for the compiler; what compiled, where no op did.
        count: How often.
        steady_count: How many of these began in a steady step.
        ns: Their time, whichever step they began in.
        file: Where in the source; None where no line is known.
        line: The line; None where it is not known.
        function: The function; None where it is not known.
    """

    name: str
    count: int
    steady_count: int
    ns: int
    file: str | None
    line: int | None
    function: str | None


@dataclass(frozen=True, slots=True)
class CompilationMeasures:
    """What was compiled in the whole recording, over all ranks.

    Attributes:
        count: Compilations, and loads of code for its first use; one inside another counts once.
        ns: Time that a host thread spent in them; where two threads compiled at once, once.
        steady_count: How many of them began in a steady step.
        steady_ns: Their time.
        recompiles: What torch.compile compiled again, with the reason; None where no collector watched it.
        graph_breaks: Where it broke the graph, with the reason; None where no collector watched it.
        places: What was compiled where, those compiled most often in steady steps first; only the first
            ``run_startup.MOST_PLACES``.
    """

    count: int
    ns: int
    steady_count: int
    steady_ns: int
    recompiles: tuple[PlacedCount, ...] | None
    graph_breaks: tuple[PlacedCount, ...] | None
    places: tuple[CompiledPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class FallbackMeasure:
    """One op that fell back to the CPU at one place, over the whole recording; see ``fallbacks``."""

    op: str
    root_op: str
    count: int
    host_ns: int
    file: str | None
    line: int | None
    function: str | None


@dataclass(frozen=True, slots=True)
class CopyMeasure:
    """Copies of one direction over the steady steps; ``bytes`` leaves out the copies that do not say."""

    direction: str
    count: int
    bytes: int
    without_bytes_count: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class CommunicationMeasures:
    """Collectives over the steady steps and all ranks; see ``CollectiveSummary``.

    ``wait_for_peer_ns`` and ``transfer_ns`` are None where they cannot be told, with the reason.
    """

    parts: int
    total_ns: int
    wait_for_peer_ns: int | None
    transfer_ns: int | None
    unknown_ns: int
    error_ns: int
    in_bytes: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class WorkRow:
    """One kernel, op or line over the steady steps and all ranks.

    Attributes:
        name: Full name of the kernel or op; ``file:line`` of a line, "" for what no line is known for.
        detail: Grid and block of a kernel; the function of a line; "" elsewhere.
        short_name: A readable form of the name.
        count: How often.
        device_ns: Time on the device: of the kernel, of what the op launched itself, of what the line launched.
        host_ns: Self time on the host; 0 for kernels.
    """

    name: str
    detail: str
    short_name: str
    count: int
    device_ns: int
    host_ns: int


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """One run in numbers.

    Attributes:
        format: "stallscope run".
        version: Version of this layout.
        analysis_version: Version of the rules that gave the causes.
        name: What the run is called.
        fingerprint: Digest of the recording.
        created_ns: When it was made, ns since 1970; None where not known.
        status: completed, or of the first rank that did not complete: running, failed, killed, unknown.
        ranks: The ranks that were measured.
        world_size: Ranks of the job; None where not known.
        missing_ranks: How many of those are not in the recording.
        unit: ``step``, or ``recording`` where no step is steady: then all sums are of the whole recording, as one step.
        lanes: The devices that ran steady steps, by rank.
        stall_places: Stalls and exposed copies by root cause and line, the longest first; none is left out.
        steps_ns: Per steady step number that every lane has the mean over the lanes, to the nearest ns.
        step_numbers: Those numbers.
        all_steps: Steps of the first rank, those that prepared included.
        preparation_steps: How many of them prepared or warmed up.
        cold_start_ns: How long the steps took that prepared or warmed up, on the rank where that was longest.
        preparation_ns: From the first stamp of the rank that was recorded longest to its first steady step.
        execution_ns: From there to the end of the last step. The whole recording without steps.
        completion_ns: From there to the last stamp.
        memory: Peaks by device.
        compilation: What was compiled.
        fallbacks: Ops that fell back to the CPU, most time first.
        copies: Copies by direction.
        communication: Collectives; None without any.
        losses: Counts of what is missing, by severity (data_loss, warning, info).
        environment: Versions, device, flags, source control and more: dotted name -> text.
        kernels: Work of the devices by name and grid, most time first; what is not listed is in one row named
            ``OTHERS``. Empty where tables were left out.
        ops: Ops by name, in the same way.
        lines: Lines of source, in the same way.
        left_out: Numbers of steady steps that count nowhere, since a comparison leaves them out.
    """

    format: str
    version: int
    analysis_version: int
    name: str
    fingerprint: str
    created_ns: int | None
    status: str
    ranks: tuple[int, ...]
    world_size: int | None
    missing_ranks: int
    unit: Unit
    lanes: tuple[LaneMeasures, ...]
    stall_places: tuple[StallPlace, ...]
    steps_ns: tuple[int, ...]
    step_numbers: tuple[int, ...]
    all_steps: int
    preparation_steps: int
    cold_start_ns: int
    preparation_ns: int
    execution_ns: int
    completion_ns: int
    memory: tuple[MemoryMeasure, ...]
    compilation: CompilationMeasures
    fallbacks: tuple[FallbackMeasure, ...]
    copies: tuple[CopyMeasure, ...]
    communication: CommunicationMeasures | None
    losses: dict[str, int]
    environment: dict[str, str]
    kernels: tuple[WorkRow, ...]
    ops: tuple[WorkRow, ...]
    lines: tuple[WorkRow, ...]
    left_out: tuple[int, ...] = ()

    @property
    def has_tables(self) -> bool:
        """Whether kernels, ops and lines are known: they are left out of what is kept small."""
        return bool(self.kernels or self.ops or self.lines)

    @property
    def device_steps(self) -> int:
        """How many steady device steps the sums are over."""
        return sum(len(lane.steps_ns) for lane in self.lanes)

    @property
    def total_ns(self) -> int:
        """The sum of all steady device steps; ``parts`` adds up to it."""
        return sum(sum(lane.steps_ns) for lane in self.lanes)

    @property
    def parts(self) -> dict[tuple[str, str], int]:
        """(state, root cause) -> ns over all lanes; adds up to ``total_ns``."""
        sums: dict[tuple[str, str], int] = {}
        for lane in self.lanes:
            for part in lane.parts:
                sums[part.state, part.cause] = sums.get((part.state, part.cause), 0) + part.ns
        return sums

    @property
    def mean_step_ns(self) -> int | None:
        """The mean steady device step, to the nearest ns; None where nothing was measured."""
        return _nearest(self.total_ns, self.device_steps) if self.device_steps else None

    @property
    def median_step_ns(self) -> int | None:
        """The median of ``steps_ns``, to the nearest ns; None without steps."""
        ordered = sorted(self.steps_ns)
        middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
        return _nearest(sum(middle), len(middle)) if middle else None

    @property
    def p95_step_ns(self) -> int | None:
        """The 95th percentile of ``steps_ns`` by nearest rank: a step that occurred. None without steps."""
        ordered = sorted(self.steps_ns)
        return ordered[-(-len(ordered) * 95 // 100) - 1] if ordered else None

    @property
    def peak_memory_bytes(self) -> int | None:
        """The most that tensors held at once on any accelerator, else on the host; None without memory events."""
        devices = [one.peak_allocated_bytes for one in self.memory if one.device_type != "cpu"]
        return max(devices or [one.peak_allocated_bytes for one in self.memory], default=None)

    @property
    def stall_ns_by_cause(self) -> dict[str, int]:
        """Root cause -> stall of the steady device steps, ns; exposed copies are not in it."""
        return {cause: ns for (state, cause), ns in self.parts.items() if state == "stall"}

    @property
    def recompile_count(self) -> int | None:
        """How often torch.compile compiled something again; None where no collector watched it."""
        found = self.compilation.recompiles
        return None if found is None else sum(one.count for one in found)


def _nearest(total: int, count: int) -> int:
    """The quotient to the nearest integer, halves up; exact for any size."""
    return (2 * total + count) // (2 * count)
