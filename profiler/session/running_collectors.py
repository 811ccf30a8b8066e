"""The collectors of one recording: which of them run, since when, and what becomes of one that fails.

A collector starts once the modules that it needs have been imported, is told of steps, ticks and segments, and is taken
out when it cannot start or one of its hooks keeps failing. Every call goes through the guard.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..recording.collector import Collector
from .guard import Guard
from .imports import ImportWatch
from .registry import registered_collectors

if TYPE_CHECKING:
    from .session import Session

MOST_HOOK_FAILURES = 3
"""A collector one of whose hooks has failed this often is stopped."""

HEAVY_IMPORTS = frozenset({"torch._dynamo", "torch._inductor", "torch._inductor.compile_fx", "torch.onnx", "triton"})
"""Modules that the program imports in mid-run, mostly through torch itself, with a million Python calls each."""


class RunningCollectors:
    """Iterates over those that run, in the order in which they started.

    Args:
        session: The recording, which is what the collectors get for their context.
        guard: Calls them.
    """

    def __init__(self, session: Session, guard: Guard) -> None:
        self._session, self._guard = session, guard
        self._running: list[Collector] = []
        self._dropped: list[Collector] = []
        self._waiting: dict[str, Collector] = {}
        self._ready_modules: set[str] = set()
        self._watch: ImportWatch | None = None

    def __iter__(self) -> Iterator[Collector]:
        return iter(list(self._running))

    # ---- start

    def start(self, chosen: list[str]) -> None:
        """Starts those of the chosen ones that can, and waits for the modules of the others."""
        for found in registered_collectors(chosen):
            account = self._guard.account(found.name)
            if found.collector is None:
                account.state, account.reason = "unavailable", found.reason
                self._unavailable(found.name, found.reason or "")
            elif self._session.detail not in found.collector.details:
                account.state, account.reason = "off", f"not part of detail={self._session.detail}"
            else:
                self._waiting[found.name] = found.collector
        awaited = {module for one in self._waiting.values() for module in one.needs}
        watched = {module for module in awaited | HEAVY_IMPORTS if module not in sys.modules}
        if watched:
            self._watch = ImportWatch(watched, self._import_begins, self._imported)
            self._watch.install()
        self._start_ready()

    def _import_begins(self, module: str) -> None:
        if module in HEAVY_IMPORTS:
            self._session.suspend_tracing(f"import {module}")

    def _imported(self, module: str) -> None:
        if not self._session.active:
            return
        self._ready_modules.add(module)
        self._guard.call("session", self._start_ready)
        if module in HEAVY_IMPORTS:
            self._session.resume_tracing()

    def _start_ready(self) -> None:
        """Starts every collector whose modules have been imported completely."""
        for name, collector in list(self._waiting.items()):
            if all(module in self._ready_modules or _is_imported(module) for module in collector.needs):
                del self._waiting[name]
                self._start_one(name, collector)

    def _start_one(self, name: str, collector: Collector) -> None:
        account = self._guard.account(name)
        failures = dict(account.failures)
        reason = self._guard.call(name, collector.available)
        if account.failures != failures:
            account.state = "failed"
        elif reason is not None:
            account.state, account.reason = "unavailable", reason
            self._unavailable(name, reason)
        else:
            account.state = "running"
            self._running.append(collector)
            self._guard.call(name, collector.start, self._session)
            if account.failures != failures:
                self._drop(collector, "failed to start")

    def _unavailable(self, name: str, reason: str) -> None:
        self._session.loss(name, "unavailable", "info", detail=reason)

    # ---- while they run

    def tell(self, hook: str, *arguments: Any) -> None:
        """Calls a hook of every collector that has it."""
        for collector in list(self._running):
            if hasattr(collector, hook):
                self._hook(collector, hook, *arguments)

    def want_next_step(self) -> bool:
        """Whether one of those that follow steps must be told of the next one's end as it happens."""
        return any(self._wants_next_step(one) for one in list(self._running) if hasattr(one, "on_step"))

    def _wants_next_step(self, collector: Collector) -> bool:
        asks = getattr(collector, "wants_next_step", None)
        return asks is None or self._guard.call(collector.name, asks) is not False

    def _hook(self, collector: Collector, name: str, *arguments: Any) -> None:
        self._guard.call(collector.name, getattr(collector, name), *arguments)
        if self._guard.account(collector.name).failures.get(name, 0) >= MOST_HOOK_FAILURES:
            self._drop(collector, f"{name} failed {MOST_HOOK_FAILURES} times")

    def _drop(self, collector: Collector, reason: str) -> None:
        """Takes a collector out; it is stopped on a thread of the program, since torch's profiler allows no other."""
        account = self._guard.account(collector.name)
        account.state, account.reason = "failed", reason
        if collector in self._running:
            self._running.remove(collector)
        self._dropped.append(collector)
        if threading.current_thread() is not self._session.thread:
            self.stop_dropped()
        else:
            self._session.on_main_thread(self.stop_dropped)

    # ---- end

    def stop_dropped(self) -> None:
        """Stops those that were taken out; call it on a thread of the program."""
        while self._dropped:
            self._stop_one(self._dropped.pop())

    def stop(self) -> None:
        """Stops all of them, the last one first."""
        if self._watch:
            self._watch.remove()
        for name, collector in self._waiting.items():
            self._guard.account(name).reason = f"the program did not import {', '.join(collector.needs)}"
        self.stop_dropped()
        for collector in reversed(self._running):
            account = self._guard.account(collector.name)
            self._stop_one(collector)
            account.state = "stopped" if account.state == "running" else account.state

    def _stop_one(self, collector: Collector) -> None:
        failures = self._guard.account(collector.name).failures
        failed_before = failures.get("stop", 0)
        self._guard.call(collector.name, collector.stop)
        if failures.get("stop", 0) > failed_before and hasattr(collector, "abandon"):
            self._hook(collector, "abandon")

    def forget(self) -> None:
        """For a forked child, in which none of them runs."""
        self._running.clear()


def _is_imported(module: str) -> bool:
    found = sys.modules.get(module)
    spec = getattr(found, "__spec__", None)
    return found is not None and not getattr(spec, "_initializing", False)
