"""The backend ``simgloo`` of torch.distributed: collectives on the device's own queue, values over gloo.

dist.init_process_group("cpu:gloo,sim:simgloo")
"""

from __future__ import annotations

from typing import Any

BACKEND = "simgloo"
"""Its name in ``init_process_group``."""


def register(native: Any) -> None:
    """Makes the backend known; nothing where torch was built without torch.distributed or gloo."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        return

    def create(options: Any, _: Any) -> Any:
        gloo = dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)
        ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
        return native.make_collectives(gloo, ranks)

    dist.Backend.register_backend(BACKEND, create, extended_api=True, devices=["sim"])
