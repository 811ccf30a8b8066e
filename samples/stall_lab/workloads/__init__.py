"""The workloads, one file each."""

from __future__ import annotations

from ..workload import Workload
from . import (
    allocator_flush,
    checkpoint,
    clean,
    clean_full_queue,
    clean_hidden_loader,
    cold_compile,
    compute_stream_copy,
    copy_and_loop,
    fallback_backward,
    fallback_forward,
    garbage_collection,
    interpreter_held,
    item_end,
    item_middle,
    loader_and_item,
    new_shapes,
    no_overlap,
    pageable_copy,
    print_tensor,
    python_and_fallback,
    python_loop,
    recompile,
    side_stream,
    slow_loader,
    slow_rank,
    tiny_kernels,
    too_few_workers,
)

WORKLOADS: dict[str, Workload] = {
    module.WORKLOAD.name: module.WORKLOAD
    for module in (
        slow_loader, too_few_workers, fallback_forward, fallback_backward, item_end, item_middle, print_tensor,
        recompile, cold_compile, new_shapes, pageable_copy, compute_stream_copy, side_stream, tiny_kernels, python_loop,
        garbage_collection, checkpoint, allocator_flush, interpreter_held, no_overlap, slow_rank, loader_and_item,
        python_and_fallback, copy_and_loop, clean,
        clean_hidden_loader, clean_full_queue,
    )
}  # fmt: skip
"""Every workload by name."""
