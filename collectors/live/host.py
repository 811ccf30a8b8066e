"""The host: cores in use, memory, context switches, bytes to disk and network, from /proc."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from ...profiler.recording.collector import CaptureContext

SYSTEM_EVERY = 5
"""Numbers of the whole host are read at every so-many-th tick, with ``always`` those of the process as well."""

_READ_BYTES = 1 << 16
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class HostCollector:
    """Counters of the process five times a second (``always``: once), of the host once a second."""

    name = "host"
    details = ("always", "low", "normal", "deep")
    needs: tuple[str, ...] = ()

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._ticks = 0
        self._totals: dict[str, tuple[float, float]] = {}

    def available(self) -> str | None:
        """Where there is a /proc."""
        return None if (self._proc / "stat").is_file() else f"there is no {self._proc} here"

    def start(self, context: CaptureContext) -> None:
        """Reads once, so that the first rates have a beginning."""
        self._context = context
        self.on_tick()

    def stop(self) -> None:
        """Reads a last time."""
        self.on_tick()

    def on_tick(self) -> None:
        """Writes the numbers of this moment."""
        is_due = self._ticks % SYSTEM_EVERY == 0
        if is_due or self._context.detail != "always":
            self._process()
        if is_due:
            self._cores()
            self._memory()
            self._network()
        self._ticks += 1

    def _value(self, name: str, unit: str, value: float) -> None:
        rows = self._context.rows
        rows.counter(rows.counter_track(name, unit), rows.now(), value)

    def _rate(self, name: str, unit: str, total: float) -> None:
        """Writes how fast a total grows, from the second reading on."""
        now = time.monotonic()
        before = self._totals.get(name)
        self._totals[name] = (now, total)
        if before is not None and now > before[0]:
            self._value(name, unit, (total - before[1]) / (now - before[0]))

    def _process(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._rate("process: cores in use", "cores", used.ru_utime + used.ru_stime)
        self._rate("process: context switches, waiting", "1/s", used.ru_nvcsw)
        self._rate("process: context switches, preempted", "1/s", used.ru_nivcsw)
        self._rate("process: page faults from disk", "1/s", used.ru_majflt)
        resident = _fields(self._proc / "self" / "statm")
        if resident:
            self._value("process: resident memory", "bytes", int(resident[1]) * _PAGE)
        told = _keyed(self._proc / "self" / "io")
        for name, key in (("process: bytes read from disk", "read_bytes"), ("process: bytes written", "write_bytes")):
            total = told.get(key)
            if total is not None:
                self._rate(name, "bytes/s", total)

    def _cores(self) -> None:
        for line in _lines(self._proc / "stat"):
            fields = line.split()
            if fields and fields[0].startswith("cpu"):
                # user, nice, system, then idle and iowait, then irq, softirq, steal
                busy = sum(int(value) for value in (*fields[1:4], *fields[6:9])) / _CLOCK_TICKS
                name = "host: cores in use" if fields[0] == "cpu" else f"host: core {fields[0][3:]}"
                self._rate(name, "cores", busy)

    def _memory(self) -> None:
        told = _keyed(self._proc / "meminfo")
        if "MemAvailable" in told:
            self._value("host: memory available", "bytes", told["MemAvailable"] * 1024)
        if told.get("SwapTotal"):
            self._value("host: swap in use", "bytes", (told["SwapTotal"] - told.get("SwapFree", 0)) * 1024)

    def _network(self) -> None:
        received = sent = 0
        for line in _lines(self._proc / "net" / "dev")[2:]:
            interface, _colon, numbers = line.partition(":")
            fields = numbers.split()
            if interface.strip() != "lo" and len(fields) >= 9:
                received += int(fields[0])
                sent += int(fields[8])
        self._rate("host: network received", "bytes/s", received)
        self._rate("host: network sent", "bytes/s", sent)


def _lines(path: Path) -> list[str]:
    """Without a file object, which costs as much again, five times a second."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return b"".join(iter(lambda: os.read(file, _READ_BYTES), b"")).decode().splitlines()
    except OSError:
        return []
    finally:
        os.close(file)


def _fields(path: Path) -> list[str]:
    lines = _lines(path)
    return lines[0].split() if lines else []


def _keyed(path: Path) -> dict[str, int]:
    """Lines ``name: number [unit]`` as a dict; other lines are left out."""
    found = {}
    for line in _lines(path):
        name, _colon, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit():
            found[name.strip()] = int(fields[0])
    return found
