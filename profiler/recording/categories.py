"""What kind of work a slice is: one rule table for every profiler, era and vendor.

``categorize(raw_category, name)`` reads ``RULES`` from the top; the first rule whose raw category and name both match
decides. A raw category is compared without regard to case, since the layout of 2021 writes ``Kernel`` where today's
writes ``kernel``. The table knows names, not places: a collective's host call and its kernel are both ``collective``,
so device work is a slice of a ``DEVICE_WORK`` category *on a track of kind stream, engine or queue*.

A change of the table changes what recordings say: raise ``RULES_VERSION`` with it. Derived data and imported traces
are kept under ``rules_fingerprint()``, which also covers patterns that a user added.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

RULES_VERSION = 2
"""Raised with every change of ``RULES`` or ``COMMUNICATION_PATTERNS``."""

CATEGORIES = (
    "op", "python", "module", "annotation", "runtime", "kernel", "graph", "memcpy", "memset", "collective",
    "synchronization", "allocation", "dma", "instruction", "compile", "fallback", "input", "gc", "io", "overhead",
    "other",
)  # fmt: skip
"""Every category that a slice can have."""

DEVICE_WORK = frozenset({"kernel", "memcpy", "memset", "collective", "dma", "instruction"})
"""The categories that keep a device busy, when the slice lies on a track of kind stream, engine or queue."""


@dataclass(frozen=True, slots=True)
class CommunicationPattern:
    """A name that means communication between ranks.

    Attributes:
        pattern: A regular expression, searched for anywhere in the name, with regard to case.
        source: The library or framework whose names it covers.
    """

    pattern: str
    source: str


P = CommunicationPattern

COMMUNICATION_PATTERNS: list[CommunicationPattern] = [
    # ncclKernel_AllReduce_..., ncclDevKernel_..., ncclSymDevKernel_..., and the libraries that follow NCCL's names.
    P(r"(?i)^(?:void )?(?:nccl|rccl|hccl|mccl|xccl|cncl|msccl)", "NCCL, RCCL, HCCL, MCCL, XCCL, CNCL, MSCCL"),
    P(r"(?i)nccl.*kernel", "NCCL"),
    P(r"\bmscclpp::", "MSCCL++"),
    P(r"(?i)\boneccl|(?<![a-z])ccl::", "oneCCL"),
    # Expert parallelism: dispatch and combine of tokens.
    P(r"\bdeep_ep::|\bdpsk::ep::", "DeepEP"),
    P(r"\bpplx::|\ba2a_(?:dispatch|combine)_", "pplx-kernels"),
    P(r"\bmori::|\bEp(?:Dispatch|Combine)\w*Kernel", "MORI"),
    P(r"(?i)moe_?all_?to_?all", "TensorRT-LLM, FlashInfer"),
    # One-sided communication from inside kernels.
    P(r"(?i)\bnvshmem|\broc_?shmem|\bishmem", "NVSHMEM, rocSHMEM, Intel SHMEM"),
    # All-reduce kernels that inference servers write themselves.
    P(r"\bcross_device_reduce_", "vLLM, SGLang, AITER"),
    P(r"\bquickreduce::|\ballreduce_prototype_", "quick reduce"),
    P(r"(?i)(?:one|two)_?shot_?all_?reduce", "TensorRT-LLM, PyTorch symmetric memory"),
    P(r"(?i)all_?reduce_?fusion|mnnvl_all_?reduce", "TensorRT-LLM, FlashInfer, AITER"),
    P(r"(?i)\bmultimem_(?:one_shot_|two_shot_)?(?:all_reduce|all_gather|reduce_scatter)", "PyTorch symmetric memory"),
    P(r"\buserbuffers_", "Transformer Engine"),
    # The host's side: c10d calls and the ranges that its backends open.
    P(r"^(?:record_param_comms$|c10d::|_?c10d_functional::)", "PyTorch c10d"),
    P(r"^(?:nccl|rccl|xccl|hccl|gloo|mpi|ucc|ccl):(?!:)", "PyTorch c10d backends"),
]
"""What counts as communication, beyond a name that starts with nccl. Append to it (before importing) to teach more.

Names that share only a word with a collective, like cub's ``DeviceReduce``, must not match."""


@lru_cache(maxsize=8)
def _compiled(patterns: tuple[CommunicationPattern, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(entry.pattern) for entry in patterns)


def is_communication(name: str) -> bool:
    """Whether a kernel, host call or range of that name is communication between ranks.

    Where a name does not tell (a user's own kernel), the answer is False: the work then counts as compute.
    """
    return any(pattern.search(name) for pattern in _compiled(tuple(COMMUNICATION_PATTERNS)))


def is_device_work(category: str) -> bool:
    """Whether a slice of that category keeps a device busy, given that it lies on a device's track."""
    return category in DEVICE_WORK


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table.

    Attributes:
        raw: Matches the whole raw category, without regard to case; an event without one is matched as ``""``.
        name: Searched for in the name; empty matches every name. ``<communication>`` asks ``is_communication``.
        category: What such a slice is.
    """

    raw: str
    name: str
    category: str


_ANY = r".*"
_COMMUNICATION = "<communication>"
_HOST = r"cpu_op|operator|user_annotation"
_RUNTIME = r"runtime|.*_runtime|.*_driver|mtia_workloadd"
_PYTHON = r"python_function|python|fee"

# A call that returns when the device, stream or event has finished. "Async" copies return at once; hipMemcpyWithStream
# is a copy followed by a wait for its stream. Submitting a wait to a queue (cudaStreamWaitEvent) does not block.
_BLOCKING_CALL = (
    r"(?i)^(?!enqueue).*synchronize"
    r"|^(?:cuda|hip)Memcpy(?!.*(?:Async|Batch))"
    r"|^cuMemcpy(?!.*Async)"
    r"|^(?:pi|ur)(?:Event|Events|Queue)(?:Wait|Finish)$"
    r"|^zeEventHostSynchronize|^ze\w+HostSynchronize"
)
_ALLOCATING_CALL = (
    r"^(?:cuda|hip|musa)(?:Malloc|Free|HostAlloc|HostFree|HostMalloc|HostRegister|HostUnregister|ExtMalloc)"
    r"|^cuMem(?:Alloc|Free|Create|Release|Map|Unmap|Address|HostAlloc|HostRegister|SetAccess)"
    r"|^zeMem(?:Alloc|Free)|^ur(?:USM\w*Alloc|USMFree)|^piextUSM\w*(?:Alloc|Free)|^aclrt(?:Malloc|Free)"
    r"|^nrt_tensor_(?:allocate|free)|^[a-z]{2,8}(?:Malloc|Free)(?:Async|Host)?$"
)
_COMPILING = (
    r"\(dynamo_timed\)$|: compile_id=|^(?:_compile\.|compile_fx|entire_frame_compile|backend_compile|async_compile\.)"
    r"|^(?:inductor_compile|create_aot_dispatcher_function|PyCodeCache\.|GraphLowering\.|CachingAutotuner\.)"
)

RULES: tuple[Rule, ...] = (
    # Device rows. A copy is a copy even where a vendor files it under kernels.
    Rule(r"kernel|hpu_op|gpu_memcpy|memcpy|gpu_memset|memset", r"^Memcpy|^__amd_rocclr_copy|^CopyDevice", "memcpy"),
    Rule(r"kernel|hpu_op|gpu_memcpy|memcpy|gpu_memset|memset", r"^Memset|^__amd_rocclr_fill|^FillBuffer", "memset"),
    Rule(r"kernel|hpu_op", _COMMUNICATION, "collective"),
    Rule(r"kernel|hpu_op", "", "kernel"),
    Rule(r"gpu_memcpy|memcpy", "", "memcpy"),
    Rule(r"gpu_memset|memset", "", "memset"),
    Rule(r"collective_comm", "", "collective"),
    Rule(r"gpu_user_annotation|cuda_profiler_range", "", "annotation"),
    Rule(r"cuda_sync|xpu_sync", "", "synchronization"),
    Rule(r"mtia_ccp_events", r"^event_(?:wait|record)", "synchronization"),
    Rule(r"mtia_ccp_events", r"^dma", "dma"),
    Rule(r"mtia_ccp_events", _COMMUNICATION, "collective"),
    Rule(r"mtia_ccp_events", "", "kernel"),
    # Calls into a device's runtime or driver.
    Rule(_RUNTIME, _BLOCKING_CALL, "synchronization"),
    Rule(_RUNTIME, _ALLOCATING_CALL, "allocation"),
    Rule(_RUNTIME, "", "runtime"),
    # The host.
    Rule(_HOST, r"^enumerate\(DataLoader\)", "input"),
    Rule(_HOST, _COMPILING, "compile"),
    Rule(_HOST, r"^Python GC", "gc"),
    Rule(_HOST, r"^aten::_to_cpu$", "fallback"),
    Rule(_HOST, _COMMUNICATION, "collective"),
    # Before user_annotation existed, ranges that Python code names were operators.
    Rule(r"operator|cpu_op", r"^ProfilerStep#|^Optimizer\.(?:step|zero_grad)#", "annotation"),
    Rule(r"operator|cpu_op", "", "op"),
    Rule(r"user_annotation", "", "annotation"),
    Rule(_PYTHON, r"^Python GC", "gc"),
    Rule(_PYTHON, r"^nn\.Module: ", "module"),
    Rule(_PYTHON, "", "python"),
    # The profiler's own.
    Rule(r"overhead", "", "overhead"),
    Rule(_ANY, "", "other"),
)
"""The table, read from the top."""


@lru_cache(maxsize=1)
def _table() -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None, bool, str], ...]:
    rows = []
    for rule in RULES:
        asks_communication = rule.name == _COMMUNICATION
        name = None if asks_communication or not rule.name else re.compile(rule.name)
        rows.append((re.compile(rule.raw, re.IGNORECASE), name, asks_communication, rule.category))
    return tuple(rows)


@lru_cache(maxsize=256)
def _rules_for(raw_category: str) -> tuple[tuple[re.Pattern[str] | None, bool, str], ...]:
    """The rules whose raw category matches; the last of them matches every name."""
    return tuple(
        (name, asks_communication, category)
        for raw, name, asks_communication, category in _table()
        if raw.fullmatch(raw_category)
    )


def categorize(raw_category: str | None, name: str) -> str:
    """The category of a slice, one of ``CATEGORIES``.

    Args:
        raw_category: What the trace writes (``cat``), in any case; None where it writes nothing.
        name: The slice's full name.
    """
    for pattern, asks_communication, category in _rules_for((raw_category or "").strip()):
        if asks_communication:
            if is_communication(name):
                return category
        elif pattern is None or pattern.search(name):
            return category
    raise AssertionError("the last rule matches everything")


def rules_fingerprint() -> str:
    """A short text that changes with the table, its version, and any pattern that was added to it."""
    content = repr((RULES_VERSION, RULES, COMMUNICATION_PATTERNS))
    return hashlib.sha256(content.encode()).hexdigest()[:12]
