"""Why the host was late, read off its slices: one cause for every slice of a host thread.

A slice's cause is that of its context where it has one: the copy inside a CPU fallback is the fallback's, the wait
inside a checkpoint is io's. Otherwise it is what the slice itself is: a runtime call, an op, a wait.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import intervals as iv
from .containers import containers
from .nesting import above, nearest
from .refills import waits_to_give_back
from .timeline import CATEGORY_CODE, DATA_MOVEMENT, Ints, Timeline

CAUSES: dict[str, str] = {
    "input": "waiting for the next batch",
    "cpu_fallback": "an op ran on the CPU because the device has no kernel for it",
    "compile": "compiling, or loading code for its first use",
    "synchronization": "the host waited for the device and had nothing queued afterwards",
    "allocation": "allocating or freeing device memory through the driver",
    "launch": "the runtime call that submits the work",
    "dispatch": "the framework between two launches",
    "python": "host code outside the framework",
    "gc": "Python's garbage collection",
    "io": "reading or writing files",
    "lock": "waiting for a lock or the interpreter",
    "preempted": "the thread was ready but had no core",
    "overhead": "the profiler's own work",
    "dependency": "held on the device until other device work ended",
    "kernel_gap": "between two operations that were both queued already",
    "copy": "the program asked for the copy, and nothing ran beside it",
    "wait_for_peer": "waiting for another rank",
    "tail": "after the last operation",
    "unknown": "the recording does not say",
}
"""Every cause with what it means, as half a sentence. Order carries no meaning."""

CAUSE_NAMES = tuple(CAUSES)
CAUSE_CODE = {name: code for code, name in enumerate(CAUSE_NAMES)}
Codes = npt.NDArray[np.int8]

CLASSES: dict[str, str] = {
    "input": "input",
    "cpu_fallback": "cpu_fallback",
    "compile": "compile",
    "dependency": "device_held",
    "kernel_gap": "device_held",
    "copy": "data_movement",
    "wait_for_peer": "communication",
    "unknown": "unknown",
}
"""The coarse class of a cause; every cause that is not here is the ``host``'s."""

CONTEXTS = ("gc", "compile", "io", "input", "cpu_fallback", "lock")
"""Causes that a slice hands down to everything inside it. Time under them is never only a lost head start."""

_INTERRUPTING = (CAUSE_CODE["gc"], CAUSE_CODE["compile"])

_OF_CATEGORY = {
    "op": "dispatch",
    "collective": "dispatch",
    "fallback": "cpu_fallback",
    "runtime": "launch",
    "synchronization": "synchronization",
    "allocation": "allocation",
    "overhead": "overhead",
    "compile": "compile",
    "input": "input",
    "gc": "gc",
    "io": "io",
}

# Ops that hand a value of the device to the host: everything that the host does in them is waiting for it.
_READS_BACK = re.compile(r"^aten::(?:item|_local_scalar_dense|is_nonzero|nonzero)$")

# Drivers load a kernel's code at its first use; CUPTI reports that among its overheads.
_OVERHEAD = ((re.compile(r"Loading|Compiler"), "compile"), (re.compile(r"Command Buffer Full"), "launch"))

_LOADS_CODE = re.compile(
    r"^(?:cu|cuda|hip)(?:Module|Library)(?:Load|Get(?:Function|Kernel))|^(?:cu|hip)Link|^(?:nv|hip)rtc"
    r"|^[a-z]\w*(?:Compile(?:Kernel|Graph|Program)|Load(?:Kernel|Graph|Program|Executable))$"
)

_COMPILER = re.compile(r"^dynamo$")
"""The range around one call of torch.compile's compiler, what it does before and after compiling included."""

FIRST_USE_NS = 1_000_000
"""A launch of a kernel that was never launched before, and that takes this long on an idle device, loads its code."""

BLOCKING_COLLECTIVE_NS = 400_000
"""A host call of a collective that takes this long waits for the other ranks; one that only submits work is shorter."""

# Python functions that give all they call a cause, as torch.profiler names them: "file.py(12): function".
_PYTHON = tuple(
    (re.compile(pattern), cause)
    for pattern, cause in (
        (r"utils/data/dataloader\.py\(\d+\): (?:__next__|_next_data|__iter__|_get_iterator|_try_get_data)$", "input"),
        (r"torch/_dynamo/(?:convert_frame|symbolic_convert|output_graph)\.py\(", "compile"),
        (r"torch/_inductor/(?:graph|scheduler|codecache)\.py\(\d+\): (?:run|compile|codegen|load)", "compile"),
        (r"triton/(?:compiler/compiler|runtime/build)\.py\(\d+\): (?:compile|_build)$", "compile"),
        (r"triton_heuristics\.py\(\d+\): (?:_?precompile|benchmark_all_configs|autotune_to_one_config)", "compile"),
        (r"torch/utils/cpp_extension\.py\(\d+\): (?:load|load_inline|_jit_compile)$", "compile"),
        (r"torch/(?:serialization|distributed/checkpoint/\w+)\.py\(\d+\): (?:save|load)$", "io"),
        (r"safetensors/torch\.py\(\d+\): (?:save_file|load_file)$", "io"),
        (r"^<built-in function collect>$|^<built-in method collect of module", "gc"),
        (r"^<built-in function (?:open|fsync|open_code)>$|^<built-in method (?:write|flush|read) of _io\.", "io"),
        (r"^<built-in method acquire of _thread\.R?[Ll]ock|^threading\.py\(\d+\): (?:wait|join|acquire)$", "lock"),
    )
)


@dataclass(frozen=True, slots=True)
class HostCauses:
    """Why the host is late while a slice is the innermost one.

    Attributes:
        cause: Per row of the timeline a code of ``CAUSE_NAMES``; -1 where the slice says nothing about it.
        context: Per row the slice that its cause was handed down from (itself where it is one), -1 without context.
    """

    cause: Codes
    context: Ints


def host_causes(t: Timeline) -> HostCauses:
    """The cause of every slice of the host; slices of devices get -1."""
    container = containers(t)
    own = _own_causes(t, container)
    own_context = np.where(np.isin(own, [CAUSE_CODE[name] for name in CONTEXTS]), own, np.int8(-1))
    context = _contexts(container, own_context)
    cause = np.where(context >= 0, own[context], own).astype(np.int8)
    reading = _nearest_reading_back(t, container)
    plain = np.isin(cause, [CAUSE_CODE[name] for name in ("dispatch", "launch")])
    cause[plain & (reading >= 0)] = CAUSE_CODE["synchronization"]
    return HostCauses(cause, context)


def _own_causes(t: Timeline, container: Ints) -> Codes:
    """What each slice is by its category and name alone."""
    own = np.full(len(t), -1, dtype=np.int8)
    on_host = np.zeros(len(t.tracks) + 1, dtype=bool)
    on_host[list(t.threads)] = True
    for category, cause in _OF_CATEGORY.items():
        own[(t.category == CATEGORY_CODE[category]) & on_host[t.track]] = CAUSE_CODE[cause]
    for category, rules in (
        ("python", _PYTHON),
        ("overhead", _OVERHEAD),
        ("runtime", ((_LOADS_CODE, "compile"),)),
        ("op", ((_COMPILER, "compile"),)),
    ):
        rows = np.flatnonzero((t.category == CATEGORY_CODE[category]) & on_host[t.track])
        found = _by_name(t, rows, rules)
        own[rows[found >= 0]] = found[found >= 0]
    blocking = (own == CAUSE_CODE["dispatch"]) & (t.category == CATEGORY_CODE["collective"])
    own[blocking & (t.end - t.ts >= BLOCKING_COLLECTIVE_NS)] = CAUSE_CODE["wait_for_peer"]
    own[_first_use_calls(t)] = CAUSE_CODE["compile"]
    own[waits_to_give_back(t)] = CAUSE_CODE["allocation"]
    # torch copies a fallback's inputs with aten::_to_cpu; the op around it computes on the CPU.
    copies = np.flatnonzero(own == CAUSE_CODE["cpu_fallback"])
    around = container[copies]
    around = around[around >= 0]
    own[around[t.category[around] == CATEGORY_CODE["op"]]] = CAUSE_CODE["cpu_fallback"]
    return own


def _first_use_calls(t: Timeline) -> Ints:
    """Rows of launches that loaded the code of what they launched: the first of its name, and long on an idle device.

    A launch that takes long while the device is busy waits for room in the queue instead. Copies have no code to load.
    """
    rows = t.device_rows[(t.launch[t.device_rows] >= 0) & (t.state[t.device_rows] != DATA_MOVEMENT)].astype(np.int64)
    rows = rows[np.lexsort((t.ts[t.launch[rows]], t.name[rows]))]
    first = np.concatenate([[True], t.name[rows][1:] != t.name[rows][:-1]])[: len(rows)]
    calls = np.unique(t.launch[rows[first]].astype(np.int64))
    calls = calls[(t.end[calls] - t.ts[calls] >= FIRST_USE_NS) & (t.category[calls] == CATEGORY_CODE["runtime"])]
    work = t.device_rows
    busy = iv.covered(iv.union(iv.intervals(t.ts[work], t.end[work])), t.ts[calls], t.end[calls])
    result: Ints = calls[2 * busy < t.end[calls] - t.ts[calls]]
    return result


def _by_name(t: Timeline, rows: Ints, rules: tuple[tuple[re.Pattern[str], str], ...]) -> Codes:
    """The cause of the first rule whose pattern is found in each row's name, -1 where none is; a name is read once."""
    present = np.zeros(len(t.names), dtype=bool)
    present[t.name[rows]] = True
    of_name = np.full(len(t.names), -1, dtype=np.int8)
    for name in np.flatnonzero(present):
        text = t.names[name]
        of_name[name] = next((CAUSE_CODE[cause] for pattern, cause in rules if pattern.search(text)), -1)
    return of_name[t.name[rows]]


def _contexts(container: Ints, own: Codes) -> Ints:
    """Per row the slice whose cause it takes.

    Compiling interrupts whatever called it, and so does garbage collection; but what is collected while something is
    compiled was allocated by the compiler. Of the other contexts the outermost decides: reading a file is part of
    loading data.
    """
    context = np.full(len(own), -1, dtype=np.int64)
    for interrupting in ((), (CAUSE_CODE["gc"],), (CAUSE_CODE["compile"],)):
        chosen = np.isin(own, interrupting) if interrupting else (own >= 0) & ~np.isin(own, _INTERRUPTING)
        if chosen.any():
            outermost = chosen & (above(container, nearest(container, chosen)) < 0)
            found = nearest(container, outermost)
            context = np.where(found >= 0, found, context)
    return context


def _nearest_reading_back(t: Timeline, container: Ints) -> Ints:
    reads = np.array([_READS_BACK.match(name) is not None for name in t.names], dtype=bool)
    wanted = reads[t.name] & t.is_category("op") if len(t) else reads[:0]
    return nearest(container, wanted) if wanted.any() else np.full(len(t), -1, dtype=np.int64)
