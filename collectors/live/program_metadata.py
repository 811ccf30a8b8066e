"""What the importer reads in a trace besides events, and torch.profiler.profile alone would add."""

from __future__ import annotations

import contextlib
import json

from ...profiler.recording.segment import PRIVATE_BACKEND


def describe_program() -> None:
    """Adds the name of a PrivateUse1 device, and the rank with its groups, to the trace of the running session."""
    import torch
    import torch.distributed as distributed

    private = torch._C._get_privateuse1_backend_name()
    torch.autograd._add_metadata_json(PRIVATE_BACKEND, json.dumps(private))  # type: ignore[attr-defined]
    if not distributed.is_available() or not distributed.is_initialized():
        return
    told = {"backend": distributed.get_backend(), "rank": distributed.get_rank()}
    told["world_size"] = distributed.get_world_size()
    with contextlib.suppress(AttributeError, RuntimeError):  # older torch
        told["pg_config"] = distributed.distributed_c10d._get_all_pg_configs()
    torch.autograd._add_metadata_json("distributedInfo", json.dumps(told, default=str))  # type: ignore[attr-defined]
