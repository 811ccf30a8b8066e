"""The collectors that are installed, by entry point: the built-in ones register like anybody else's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points

from ..recording.collector import Collector
from ..recording.errors import UsageError

GROUP = "stallscope.collectors"


@dataclass(frozen=True, slots=True)
class Registered:
    """A collector's entry point, loaded or not.

    Attributes:
        name: The entry point's name, which is the collector's.
        origin: The package that registers it.
        collector: An instance; None where it cannot be loaded.
        reason: Why it cannot.
    """

    name: str
    origin: str
    collector: Collector | None
    reason: str | None = None


def registered_collectors(names: Iterable[str] | None = None) -> list[Registered]:
    """Every registered collector, loaded, in the order of their names; those of ``names`` alone if given.

    One that cannot be imported or made is listed with the reason.
    """
    wanted = None if names is None else set(names)
    found = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if wanted is not None and point.name not in wanted:
            continue
        origin = point.dist.name if point.dist else "unknown"
        try:
            found.append(Registered(point.name, origin, point.load()()))
        except Exception as error:  # noqa: BLE001 - somebody else's package; it must not keep the others from loading
            found.append(Registered(point.name, origin, None, f"{type(error).__name__}: {error}"))
    return found


def collector_names() -> list[str]:
    """The names of all registered collectors."""
    return sorted(point.name for point in entry_points(group=GROUP))


def chosen_names(asked: tuple[str, ...]) -> list[str]:
    """The collectors that a setting asks for: names to take, or names with a minus to leave out, of all there are.

    Raises:
        UsageError: A name is not registered, or both forms are mixed.
    """
    known = collector_names()
    for name in asked:
        if name.removeprefix("-") not in known:
            raise UsageError(
                f"there is no collector {name.removeprefix('-')!r}.", hint=f"There are: {', '.join(known)}."
            )
    left_out = {name[1:] for name in asked if name.startswith("-")}
    if left_out and len(left_out) != len(asked):
        raise UsageError(f"collectors={','.join(asked)} mixes names to take and names to leave out.")
    if left_out or not asked:
        return [name for name in known if name not in left_out]
    return [name for name in known if name in asked]
