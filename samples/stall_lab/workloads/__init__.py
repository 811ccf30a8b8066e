"""The workloads, one file each."""

from __future__ import annotations

from ..workload import Workload
from . import (
    allocator_flush,
    checkpoint,
    clean,
    clean_full_queue,
    clean_hidden_loader,
    fallback_backward,
    fallback_forward,
    garbage_collection,
    item_end,
    item_middle,
    loader_and_item,
    new_shapes,
    pageable_copy,
    print_tensor,
    python_and_fallback,
    python_loop,
    recompile,
    side_stream,
    slow_loader,
    tiny_kernels,
)

WORKLOADS: dict[str, Workload] = {
    module.WORKLOAD.name: module.WORKLOAD
    for module in (
        slow_loader, fallback_forward, fallback_backward, item_end, item_middle, print_tensor, recompile, new_shapes,
        pageable_copy, tiny_kernels, python_loop, garbage_collection, checkpoint, allocator_flush, side_stream,
        loader_and_item, python_and_fallback, clean, clean_hidden_loader, clean_full_queue,
    )
}  # fmt: skip
"""Every workload by name."""
