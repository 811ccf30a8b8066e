"""What a finding says and what it suggests, by its kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for findings of one kind.

    Attributes:
        title: What is the matter; ``{device}`` stands for what waits (the device, or the training thread).
        advice: One thing to try.
    """

    title: str
    advice: str


WORDING: dict[str, Wording] = {
    "input": Wording(
        "{device} waits for the next batch",
        "Give the DataLoader more workers (num_workers), pin_memory=True and prefetching, or make __getitem__ cheaper.",
    ),
    "cpu_fallback": Wording(
        "An op runs on the CPU because {device} has no kernel for it",
        "Replace the op with one that the device has, or move it out of the step.",
    ),
    "compile": Wording(
        "Compiling, or loading code for its first use, inside the step",
        "Keep shapes and Python values that the graph depends on constant (mark_dynamic, padding), or warm up before.",
    ),
    "synchronization": Wording(
        "A wait for {device} empties its queue",
        "Read the value later or less often (.item(), .cpu(), print, synchronize), or copy it with non_blocking=True.",
    ),
    "several_waits": Wording(
        "Waits for {device} at several places empty its queue, and no single one of them is to blame",
        "Read all of these values later or less often: as long as one wait stays, the host waits there instead.",
    ),
    "allocation": Wording(
        "Memory is allocated through the driver inside the step",
        "Let the caching allocator reuse blocks: constant sizes, expandable_segments, no empty_cache() in the loop.",
    ),
    "launch_bound": Wording(
        "{device} runs small operations faster than the host launches them",
        "Launch fewer, larger operations: torch.compile, CUDA graphs, fused or foreach optimizers, a larger batch.",
    ),
    "kernel_gap": Wording(
        "{device} stands still between operations that are queued already",
        "Run fewer, longer kernels: fuse them (torch.compile) or replay them as a graph.",
    ),
    "between_ops": Wording(
        "Time between ops, in which nothing is computed",
        "Run fewer, larger ops: torch.compile, a larger batch, foreach optimizers.",
    ),
    "held": Wording(
        "{device} does not start work that is queued, and the recording does not say why",
        "Record with stream waits and events (enable_cuda_sync_events), and look for other processes on the device.",
    ),
    "dependency": Wording(
        "{device} waits for work on another stream",
        "Start what is waited for earlier, or give the waiting stream work that does not depend on it.",
    ),
    "python": Wording(
        "Python code of the training loop runs while {device} waits",
        "Move the code out of the step, into a worker process, or after the launches of the next step.",
    ),
    "gc": Wording(
        "Python's garbage collector runs while {device} waits",
        "Call gc.freeze() after set-up and gc.disable(), and collect between steps at a time of your choosing.",
    ),
    "io": Wording(
        "Files are read or written while {device} waits",
        "Write checkpoints and logs from a background thread or process, from a copy on the host.",
    ),
    "lock": Wording(
        "The launching thread waits for a lock",
        "Keep other Python threads from holding the interpreter during a step: use processes instead.",
    ),
    "preempted": Wording(
        "The launching thread waits for a CPU core",
        "Give the process more cores, or lower the number of threads and workers that compete for them.",
    ),
    "overhead": Wording(
        "The profiler itself holds {device} up",
        "Record with less detail (no stacks, no shapes): without the profiler this time is not lost.",
    ),
    "copy": Wording(
        "Copies that nothing runs beside",
        "Copy on a stream of its own while the step before computes (non_blocking=True from pinned memory).",
    ),
    "pageable_copy": Wording(
        "Copies from or to pageable memory, with nothing beside them",
        "Pin the memory (DataLoader(pin_memory=True)) and copy with non_blocking=True: it is faster and can overlap.",
    ),
    "awaited_copy": Wording(
        "Copies on a stream of their own are awaited before anything else can run",
        "Queue the copy earlier, a step ahead, or wait for it later: right before what needs it.",
    ),
    "device_copy": Wording(
        "Copies within {device} that nothing runs beside",
        "Copy less: no clone() or contiguous() in the step, outputs written in place, gradients as views of buckets.",
    ),
    "memset": Wording(
        "Memory is filled with a value, and nothing runs beside it",
        "Fill less: zero_grad(set_to_none=True), empty() where every element is written anyway, buffers made once.",
    ),
    "wait_for_peer": Wording(
        "{device} waits for another rank in collectives",
        "Look at what that rank does before it arrives: its own stalls and its share of the work.",
    ),
    "communication": Wording(
        "Communication that no computation hides",
        "Overlap it with computation (smaller buckets, prefetching of parameters), or send less.",
    ),
    "unknown": Wording(
        "{device} waits, and the recording does not say why",
        "Record again with the host's activity, so that launches and ops are there to look at.",
    ),
    "memory_growth": Wording(
        "Memory grows from step to step",
        "Look for tensors kept across steps: a loss summed without .detach(), a growing list, a retained graph.",
    ),
}
"""Every kind of finding, where a device waits."""

ON_THREADS: dict[str, Wording] = {
    "input": Wording(
        "{device} waits for the next batch",
        "Give the DataLoader more workers (num_workers) and prefetching, or make __getitem__ cheaper.",
    ),
    "synchronization": Wording(
        "{device} waits",
        "Look at what it waits for: another thread, another process, or a device that is not in the recording.",
    ),
    "python": Wording(
        "Python code runs in the step, and nothing is computed meanwhile",
        "Move the code out of the step or into a worker process, or replace loops over elements by ops on tensors.",
    ),
    "gc": Wording(
        "Python's garbage collector runs in the step",
        "Call gc.freeze() after set-up and gc.disable(), and collect between steps at a time of your choosing.",
    ),
    "io": Wording(
        "Files are read or written in the step",
        "Write checkpoints and logs from a background thread or process.",
    ),
    "lock": Wording(
        "{device} waits for a lock",
        "Keep other Python threads from holding the interpreter during a step: use processes instead.",
    ),
    "preempted": Wording(
        "{device} waits for a CPU core",
        "Give the process more cores, or lower the number of threads and workers that compete for them.",
    ),
    "copy": Wording(
        "Tensors are copied, and nothing is computed meanwhile",
        "Copy less: views instead of clone() and contiguous(), one dtype and memory layout throughout, ops in place.",
    ),
    "unknown": Wording(
        "{device} does nothing that is recorded",
        "Record again with Python stacks (with_stack=True), so that there is something to look at.",
    ),
}
"""What is said otherwise where the training threads stand in a device's place: there is no queue and nothing to pin."""


def wording(kind: str, *, on_device: bool) -> Wording:
    """The words for a kind of finding.

    Args:
        kind: A key of ``WORDING``.
        on_device: Whether a device waits; else the training threads of a recording without one do.
    """
    return WORDING[kind] if on_device else ON_THREADS.get(kind, WORDING[kind])


def duration_text(ns: int) -> str:
    """A length of time for a sentence, with three digits: ``47.5 ms``."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)):
        if ns >= size:
            value = ns / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{ns} ns"
