"""Which steps are recorded: wait, warm up, record, and again."""

from __future__ import annotations

from dataclasses import dataclass

from ..recording.errors import UsageError

PHASES = ("wait", "warm_up", "active", "done")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cycle of steps; without one every step is ``active``.

    Attributes:
        wait: Steps of each cycle in which torch's profiler is off.
        warm_up: Steps in which it runs and what it sees is thrown away, so that its own start-up is not recorded.
        active: Steps that are recorded.
        repeat: How many cycles; 0: until the end.
    """

    wait: int = 0
    warm_up: int = 0
    active: int = 1
    repeat: int = 0

    def __post_init__(self) -> None:
        for name in ("wait", "warm_up", "active", "repeat"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise UsageError(f"schedule: {name} is {value!r}, expected a whole number of steps, 0 or more.")
        if self.active == 0:
            raise UsageError("schedule: active is 0, so no step would be recorded.", hint="Use active=1 or more.")

    def phase(self, step: int) -> str:
        """The phase of a step, counted from 0: one of ``PHASES``."""
        cycle = self.wait + self.warm_up + self.active
        if self.repeat and step >= cycle * self.repeat:
            return "done"
        at = step % cycle
        if at < self.wait:
            return "wait"
        return "warm_up" if at < self.wait + self.warm_up else "active"

    def text(self) -> str:
        """The schedule as settings write it: ``wait,warm_up,active,repeat``."""
        return f"{self.wait},{self.warm_up},{self.active},{self.repeat}"


def schedule(*, wait: int = 0, warm_up: int = 0, active: int = 1, repeat: int = 0) -> Schedule:
    """A schedule for ``stallscope.profile``: wait, warm up, record ``active`` steps, and again ``repeat`` times.

    Args:
        wait: Steps left out at the start of each cycle.
        warm_up: Steps in which the profiler runs unrecorded.
        active: Steps recorded in each cycle.
        repeat: Cycles; 0: until the program ends.

    Raises:
        UsageError: A number is negative, or active is 0.
    """
    return Schedule(wait, warm_up, active, repeat)


def parse_schedule(value: Schedule | str) -> Schedule:
    """A schedule from ``wait,warm_up,active[,repeat]``.

    Raises:
        UsageError: The text has another form.
    """
    if isinstance(value, Schedule):
        return value
    parts = [part.strip() for part in str(value).split(",")]
    if len(parts) not in (3, 4) or not all(part.isdigit() for part in parts):
        raise UsageError(f"schedule is '{value}', expected wait,warm_up,active or wait,warm_up,active,repeat.")
    return Schedule(*(int(part) for part in parts))
