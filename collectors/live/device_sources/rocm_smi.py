"""AMD GPUs, from ``rocm-smi --json``: text values under names that have changed over the years."""

from __future__ import annotations

import json
import re
import shutil

from .command import RepeatedCommand
from .reading import DeviceDescription, Reading

COMMAND = (
    "rocm-smi", "--showuse", "--showmemuse", "--showmeminfo", "vram", "--showtemp", "--showpower", "--showclocks",
    "--showrasinfo", "--json",
)  # fmt: skip
PERIOD_S = 2.0
DEVICE_TYPE = "cuda"
"""torch calls AMD's GPUs cuda as well, and tracks are found by torch's name."""

PATTERNS: tuple[tuple[str, str, str, float], ...] = (
    (r"GPU use \(%\)", "driver: kernels running", "%", 1),
    (r"GPU [Mm]emory (?:use|Allocated \(VRAM%\))(?: \(%\))?", "driver: memory used", "%", 1),
    (r"VRAM Total Used Memory \(B\)", "driver: memory used", "bytes", 1),
    (r"Temperature \(Sensor junction\) \(C\)", "temperature, junction", "C", 1),
    (r"Temperature \(Sensor edge\) \(C\)", "temperature", "C", 1),
    (r"Temperature \(Sensor memory\) \(C\)", "temperature, memory", "C", 1),
    (r"(?:Average|Current)(?: Socket)? Graphics Package Power \(W\)", "power", "W", 1),
)
"""Key (matched whole) -> name, unit, factor."""

_CARD = re.compile(r"card(\d+)")
_CLOCK = re.compile(r"sclk clock speed:")
_CLOCK_VALUE = re.compile(r"\(?(\d+)Mhz\)?", re.IGNORECASE)
_TOTAL = "VRAM Total Memory (B)"


class RocmSmiSource:
    """Use, memory, temperature, power and clock of each GPU, every two seconds (the tool takes up to a second)."""

    name = "rocm-smi"

    def __init__(self) -> None:
        self._command = RepeatedCommand(COMMAND, PERIOD_S)

    def available(self) -> str | None:
        """Whether the tool is there."""
        return None if shutil.which(COMMAND[0]) else "rocm-smi is not on the path"

    def start(self) -> None:
        """Begins to run it."""
        self._command.start()

    def stop(self) -> None:
        """Ends."""
        self._command.stop()

    def devices(self) -> list[DeviceDescription]:
        """None: torch knows model and memory."""
        return []

    def read(self) -> list[Reading]:
        """What the last run printed, once."""
        printed = self._command.take()
        return readings_of(printed) if printed else []


def readings_of(printed: str) -> list[Reading]:
    """The readings in one output of ``rocm-smi --json``; what is not a number is left out.

    Raises:
        ValueError: It is not JSON.
    """
    found = []
    for card, values in json.loads(printed).items():
        match = _CARD.fullmatch(card)
        if not match or not isinstance(values, dict):
            continue
        index = int(match[1])
        for key, text in values.items():
            found += [
                Reading(name, unit, value * factor, DEVICE_TYPE, index)
                for pattern, name, unit, factor in PATTERNS
                if re.fullmatch(pattern, key) and (value := _number(text)) is not None
            ]
            clock = _CLOCK_VALUE.search(str(text)) if _CLOCK.match(key) else None
            if clock:
                found.append(Reading("clock", "MHz", float(clock[1]), DEVICE_TYPE, index))
    return found


def _number(text: object) -> float | None:
    try:
        return float(str(text).strip().rstrip("%W"))
    except ValueError:
        return None
