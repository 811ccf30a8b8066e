"""What a call of torch.distributed's process group says of itself: kind, bytes in and out, element type, peer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

KINDS: dict[str, tuple[str, int | None, int | None]] = {
    "allreduce": ("all_reduce", 0, 0),
    "allreduce_coalesced": ("all_reduce", 0, 0),
    "broadcast": ("broadcast", 0, 0),
    "reduce": ("reduce", 0, 0),
    "allgather": ("all_gather", 1, 0),
    "allgather_coalesced": ("all_gather", 1, 0),
    "_allgather_base": ("all_gather", 1, 0),
    "all_gather_single": ("all_gather", 1, 0),
    "allgather_into_tensor_coalesced": ("all_gather", 1, 0),
    "all_gather_single_coalesced": ("all_gather", 1, 0),
    "gather": ("gather", 1, 0),
    "scatter": ("scatter", 1, 0),
    "reduce_scatter": ("reduce_scatter", 1, 0),
    "_reduce_scatter_base": ("reduce_scatter", 1, 0),
    "reduce_scatter_single": ("reduce_scatter", 1, 0),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1, 0),
    "reduce_scatter_single_coalesced": ("reduce_scatter", 1, 0),
    "alltoall": ("all_to_all", 1, 0),
    "alltoall_base": ("all_to_all", 1, 0),
    "all_to_all_single": ("all_to_all", 1, 0),
    "barrier": ("barrier", None, None),
    "monitored_barrier": ("barrier", None, None),
    "send": ("send", 0, None),
    "recv": ("recv", None, 0),
    "recv_anysource": ("recv", None, 0),
}
"""Method of ProcessGroup -> kind, position of the inputs, position of the outputs among its arguments."""

POINT_TO_POINT = ("send", "recv")


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        kind: all_reduce, all_gather, ... as in ``collectives.kind``.
        in_bytes: Bytes of the tensors that go in; None where none do.
        out_bytes: Bytes of those that come out.
        dtype: Element type of the first tensor.
        peer: The other rank, for send and recv; None where any may send.
    """

    kind: str
    in_bytes: int | None
    out_bytes: int | None
    dtype: str | None
    peer: int | None


def describe(method: str, arguments: tuple[Any, ...]) -> Call:
    """The call of a method with these arguments (without the group itself); ``peer`` is a rank within the group."""
    kind, inputs, outputs = KINDS[method]
    given, received = _tensors(arguments, inputs), _tensors(arguments, outputs)
    first = next(iter([*given, *received]), None)
    peer = arguments[1] if method in POINT_TO_POINT and len(arguments) > 1 else None
    return Call(
        kind,
        None if inputs is None else sum(map(_bytes, given)),
        None if outputs is None else sum(map(_bytes, received)),
        None if first is None else str(first.dtype).removeprefix("torch."),
        int(peer) if isinstance(peer, int) else None,
    )


def _tensors(arguments: tuple[Any, ...], position: int | None) -> list[Any]:
    return list(_flat(arguments[position])) if position is not None and position < len(arguments) else []


def _flat(value: Any) -> Iterator[Any]:
    if hasattr(value, "element_size"):
        yield value
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _flat(inner)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())
