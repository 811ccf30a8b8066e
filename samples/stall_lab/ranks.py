"""The processes of a run with several ranks: this one and copies of it."""

from __future__ import annotations

import os
from pathlib import Path


def fork_ranks(count: int) -> tuple[int, tuple[int, ...]]:
    """Makes this process one of ``count`` ranks, the others copies of it that go on from here as well.

    To be called before anything started a thread: a copy has only the thread that made it.

    Returns:
        The rank of this process, and on rank 0 the ids of the other processes.
    """
    children: list[int] = []
    for rank in range(1, count):
        child = os.fork()
        if not child:
            return rank, ()
        children.append(child)
    return 0, tuple(children)


def join_group(rank: int, count: int, folder: Path) -> None:
    """Joins the process group of the run, which meets at a file in ``folder``."""
    import torch.distributed as dist

    os.environ["LOCAL_RANK"] = str(rank)
    # The same in every rank, which have no parent in common that a recording could go by.
    os.environ["TORCHELASTIC_RUN_ID"] = f"stall_lab {folder}"
    dist.init_process_group(
        "cpu:gloo,sim:simgloo", init_method=f"file://{folder / 'rendezvous'}", rank=rank, world_size=count
    )


def leave_group(children: tuple[int, ...]) -> None:
    """Leaves it, and on rank 0 waits for the other ranks.

    Raises:
        RuntimeError: A rank failed.
    """
    import torch.distributed as dist

    dist.destroy_process_group()
    for child in children:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            raise RuntimeError(f"another rank of the run ended with status {status}")
