"""One number of one device, and what a source of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Reading:
    """A number of a device at the moment of reading.

    Attributes:
        name: What it is: "memory allocated", "temperature", "throttled: power".
        unit: Its unit; "" for a count or a state (1: yes, 0: no).
        value: The number.
        device_type: cuda, hip, neuron, ...
        device_index: The index among the devices of its type; None: of all together.
    """

    name: str
    unit: str
    value: float
    device_type: str
    device_index: int | None


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """What a source knows of a device that does not change: columns of the table ``devices``."""

    device_type: str
    device_index: int
    name: str | None = None
    uuid: str | None = None
    memory_bytes: int | None = None


class Source(Protocol):
    """A tool or library that gives numbers.

    Attributes:
        name: What to call it in messages.
    """

    name: str

    def available(self) -> str | None:
        """None if it works here, else why not."""

    def start(self) -> None:
        """Opens it."""

    def devices(self) -> list[DeviceDescription]:
        """The devices that it sees."""

    def read(self) -> list[Reading]:
        """The numbers of this moment; empty where it has none new. Must return soon."""

    def stop(self) -> None:
        """Closes it."""
