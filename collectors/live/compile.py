"""torch.compile: each compilation with its place, its cost, why it was compiled again, and where the graph broke.

From torch._dynamo: callbacks for begin and end, ``CompilationMetrics`` for the phases, and its counters for graph
breaks and cache hits. Nothing of it runs outside compilation. Backends that count their own caches are asked as well.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from typing import Any

from ...profiler.recording.captured_rows import OpenSlice
from ...profiler.recording.collector import CaptureContext

METRICS = (
    "co_name", "co_filename", "co_firstlineno", "cache_size", "guard_count", "graph_op_count", "graph_node_count",
    "entire_frame_compile_time_s", "backend_compile_time_s", "inductor_compile_time_s", "code_gen_time_s",
    "fail_type", "fail_reason", "restart_reasons", "recompile_reason", "inductor_fx_remote_cache_hit_count",
    "triton_compile_time_us", "is_forward",
)  # fmt: skip
"""The fields of CompilationMetrics that are kept; those that a version of torch lacks are left out."""

_LONGEST = 2000
_COUNTED = {"frames": "frames compiled", "inductor": "inductor", "aot_autograd": "aot_autograd"}


class CompileCollector:
    """A slice for each compilation, an instant for each graph break, counters for the caches."""

    name = "compile"
    details = ("always", "low", "normal", "deep")
    needs = ("torch", "torch._dynamo")

    def __init__(self) -> None:
        self._open: dict[int, list[OpenSlice]] = {}
        self._ended: deque[tuple[OpenSlice, int, str | None]] = deque()
        self._counts: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def available(self) -> str | None:
        """Where torch has compilation callbacks."""
        try:
            from torch._dynamo.callback import callback_handler  # noqa: F401
        except ImportError:
            return "this torch has no compilation callbacks"
        return None

    def start(self, context: CaptureContext) -> None:
        """Registers the callbacks; what was counted before is not ours."""
        from torch._dynamo.callback import callback_handler

        self._context = context
        self._counts = _counters()
        self._handler = callback_handler
        self._begin = context.guarded(self.name, self._compile_begins)
        self._end = context.guarded(self.name, self._compile_ends)
        callback_handler.register_start_callback(self._begin)
        callback_handler.register_end_callback(self._end)

    def stop(self) -> None:
        """Takes the callbacks out and writes what is left."""
        for remove, callback in (
            (self._handler.remove_start_callback, self._begin),
            (self._handler.remove_end_callback, self._end),
        ):
            try:
                remove(callback)
            except ValueError:
                continue  # torch._dynamo.reset() has removed it
        self._write()

    def on_tick(self) -> None:
        """Writes what has been compiled, and counters that have changed."""
        self._write()

    def _compile_begins(self, arguments: Any = None) -> None:
        if not self._context.active:
            return
        rows = self._context.rows
        identifier = _compile_id(arguments)
        opened = rows.begin(f"torch.compile {identifier or ''}".strip(), "compile", rows.stack_here(1))
        self._open.setdefault(threading.get_ident(), []).append(opened)
        self._context.suspend_tracing("compilation")

    def _compile_ends(self, arguments: Any = None) -> None:
        opened = self._open.get(threading.get_ident())
        if opened:
            one = opened.pop()
            self._ended.append((one, self._context.rows.leave(one), _compile_id(arguments)))
            self._context.resume_tracing()

    def _write(self) -> None:
        with self._lock:
            metrics = _metrics_by_id() if self._ended else {}
            while self._ended:
                opened, end, identifier = self._ended.popleft()
                told = metrics.get(identifier or "", {})
                self._context.rows.write(
                    opened, end, compile_id=identifier, args=json.dumps(told, default=str) if told else None
                )
                if told.get("recompile_reason"):
                    self._instant(f"recompiled: {told['co_name']}", end, str(told["recompile_reason"]), opened)
            self._write_counters()

    def _instant(self, name: str, ts: int, reason: str, opened: OpenSlice | None = None) -> None:
        text = self._context.redacted(reason)[:_LONGEST]
        self._context.rows.slice(
            name, "compile", ts, 0, kind="instant", args=json.dumps({"reason": text}),
            stack_id=opened.stack_id if opened else None, thread_id=opened.thread_id if opened else None,
        )  # fmt: skip

    def _write_counters(self) -> None:
        now = self._context.rows.now()
        for (group, key), value in _counters().items():
            before = self._counts.get((group, key), 0)
            if value == before:
                continue
            self._counts[group, key] = value
            if group == "graph_break":
                self._instant("graph break", now, key)
            else:
                track = self._context.rows.counter_track(f"{_COUNTED.get(group, group)}: {key}", "count")
                self._context.rows.counter(track, now, float(value))


def _compile_id(arguments: Any) -> str | None:
    identifier = getattr(arguments, "compile_id", None)
    return None if identifier is None else str(identifier)


def _metrics_by_id() -> dict[str, dict[str, Any]]:
    """What torch keeps of its last compilations, by compile id."""
    from torch._dynamo.utils import get_compilation_metrics

    found: dict[str, dict[str, Any]] = {}
    for metrics in get_compilation_metrics():
        told = {name: getattr(metrics, name, None) for name in METRICS}
        kept = {name: value for name, value in told.items() if value is not None}
        # One compilation has several entries: of its own, and later ones of its backward graph.
        earlier = found.setdefault(str(getattr(metrics, "compile_id", None)), {})
        earlier.update((name, value) for name, value in kept.items() if name not in earlier)
    return found


def _counters() -> dict[tuple[str, str], float]:
    """Counters of torch._dynamo and of the backends' own compilation caches."""
    counted: dict[tuple[str, str], float] = {}
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        for group in ("frames", "inductor", "aot_autograd", "graph_break", "neuron"):
            for key, value in dict(utils.counters.get(group, {})).items():
                counted[group, str(key)] = value
    vendor = sys.modules.get("torch_neuronx.metrics")
    if vendor is not None:
        for name in vendor.get_counter_names():
            if str(name).startswith("CompilationCache"):
                counted["torch_neuronx", str(name)] = vendor.get_counter_value(name)
    return counted
