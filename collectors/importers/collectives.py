"""Collectives and process groups of one trace.

A part on a device is a communication kernel; what it is (kind, group, bytes) stands in the kernel's own args in newer
traces, else in those of the host's call that launched it, else only in names. Where nothing ran on a device (gloo), the
backend's own slice on the host (``gloo:all_reduce``) is the part, and without one the c10d call.

Fields: torch/csrc/distributed/c10d/ParamCommsUtils.hpp names them; torch.profiler writes them into ``args``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .launches import Links
from .names import DEVICE
from .slice_table import Ids
from .slices import Slices

Rows = npt.NDArray[np.int32]

KINDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"all_?reduce", "all_reduce"),
        (r"reduce_?scatter", "reduce_scatter"),
        (r"all_?gather", "all_gather"),
        (r"all_?to_?all", "all_to_all"),
        (r"broadcast|bcast", "broadcast"),
        (r"barrier", "barrier"),
        (r"scatter", "scatter"),
        (r"gather", "gather"),
        (r"send_?recv", "send_recv"),
        (r"\bsend\b|:send|_send", "send"),
        (r"\b(?:i?recv|receive)\b|:recv|_recv", "recv"),
        (r"reduce", "reduce"),
    )
)
"""Names of collectives in traces, kernels and calls alike; the first that matches counts."""

_ELEMENT_BYTES = {
    name: size
    for size, names in (
        (16, "complexdouble"),
        (8, "double float64 long int64 uint64 complexfloat"),
        (4, "float float32 int int32 uint32 complexhalf"),
        (2, "bfloat16 half float16 short int16 uint16"),
        (1, "byte uint8 char int8 bool float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"),
    )
    for name in names.split()
}

_GROUP_KINDS = (
    ("fsdp", "fsdp"), ("ddp", "dp"), ("data", "dp"), ("dp", "dp"), ("tensor", "tp"), ("tp", "tp"), ("pipe", "pp"),
    ("pipeline", "pp"), ("pp", "pp"), ("expert", "ep"), ("ep", "ep"),
)  # fmt: skip
_BACKEND_SLICE = re.compile(r"^(?:gloo|mpi|ucc|ccl):")
_DESCRIBING = frozenset({"Collective name", "Process Group Name", "Seq"})
_MOST_RANKS = 1 << 20
_DEEPEST = 64


@dataclass
class Groups:
    """The process groups that a trace names, by name."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, description: object, ranks: list[int] | None) -> None:
        """Takes a group; what is known of it already stays."""
        row = self.rows.setdefault(name, {"description": None, "ranks": None})
        if isinstance(description, str) and description and description != "undefined":
            row["description"] = row["description"] or description
        row["ranks"] = row["ranks"] or ranks

    def columns(self, first_id: int) -> dict[str, list[Any]]:
        """The columns of the table ``groups``."""
        return {
            "group_id": list(range(first_id, first_id + len(self.rows))),
            "name": list(self.rows),
            "description": [row["description"] for row in self.rows.values()],
            "ranks": [row["ranks"] for row in self.rows.values()],
            "kind": [_group_kind(row["description"]) for row in self.rows.values()],
        }


@dataclass
class Collectives:
    """The parts of one rank in collectives: rows of slices (-1: none) and what their args say."""

    call: list[int]
    part: list[int]
    kind: list[str]
    args: list[dict[str, Any]]
    groups: Groups

    def columns(self, ids: Ids, first_group: int) -> dict[str, list[Any]]:
        """The columns of the table ``collectives``."""
        numbers = {name: number for number, name in enumerate(self.groups.rows)}
        place = [numbers.get(_text(args.get("Process Group Name")) or "") for args in self.args]
        return {
            "slice_id": [row + ids.slice_base if row >= 0 else None for row in self.call],
            "device_slice_id": [row + ids.slice_base if row >= 0 else None for row in self.part],
            "group_id": [None if number is None else first_group + number for number in place],
            "sequence_number": [_whole(args.get("Seq")) for args in self.args],
            "kind": self.kind,
            "in_bytes": [_bytes(args, "In msg nelems") for args in self.args],
            "out_bytes": [_bytes(args, "Out msg nelems") for args in self.args],
            "dtype": [_text(args.get("dtype")) for args in self.args],
            "peer_rank": [_peer(args, kind) for args, kind in zip(self.args, self.kind, strict=True)],
        }


def collectives(slices: Slices, launched: Links, metadata: Mapping[str, object]) -> Collectives:
    """The collectives of a trace.

    Args:
        slices: Its slices.
        launched: Rows of host calls and of the device operations they started.
        metadata: Its top level, for ``distributedInfo.pg_config``.
    """
    pairs = slices.pairs
    communicates = pairs.in_categories("collective")
    rows = np.flatnonzero(communicates[slices.pair]) if len(slices) else np.empty(0, np.int64)
    on_device = pairs.side[slices.pair[rows]] == DEVICE
    parts, calls = rows[on_device], rows[~on_device]
    call_of = _calls(slices, launched, parts, communicates)
    if not parts.size:
        backend = np.array([bool(_BACKEND_SLICE.match(name)) for name in pairs.names], np.bool_)
        of_backend = backend[pairs.name[slices.pair[calls]]] if calls.size else np.empty(0, np.bool_)
        calls = calls[of_backend] if of_backend.any() else calls[_outermost(slices, calls, communicates) == calls]
        call_of, parts = calls, np.full(calls.size, -1, np.int64)
    found = Collectives(call_of.tolist(), parts.tolist(), [], [], _configured(metadata))
    texts = _described(slices, call_of, parts)
    for call, part, args in zip(found.call, found.part, texts, strict=True):
        found.args.append(args)
        found.kind.append(_kind(str(args.get("Collective name") or ""), _name(slices, call), _name(slices, part)))
        name = _text(args.get("Process Group Name"))
        if name is not None:
            found.groups.add(name, args.get("Process Group Description"), _ranks(args.get("Process Group Ranks")))
    return found


def _calls(slices: Slices, launched: Links, parts: npt.NDArray[np.int64], communicates: npt.NDArray[np.bool_]) -> Any:
    """For each device part the outermost collective slice around the call that launched it; -1 where there is none."""
    call, operation = launched
    launch = np.full(len(slices) + 1, -1, np.int64)
    launch[operation] = call
    return _outermost(slices, launch[parts], communicates)


def _outermost(slices: Slices, rows: npt.NDArray[np.int64], communicates: npt.NDArray[np.bool_]) -> Any:
    """The outermost collective slice that contains each row or is it; -1 where there is none."""
    found = np.full(rows.size, -1, np.int64)
    current = rows.astype(np.int64)
    for _ in range(_DEEPEST):
        known = np.flatnonzero(current >= 0)
        if not known.size:
            break
        hit = known[communicates[slices.pair[current[known]]]]
        found[hit] = current[hit]
        current[known] = slices.parent[current[known]]
    return found


def _described(slices: Slices, calls: npt.NDArray[np.int64], parts: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """The args that describe each collective: the device part's, and those of ``record_param_comms`` in its call.

    A part's own args count first; what they lack is taken from the record, unless that is of another collective, as in
    a call that starts several.
    """
    own = _args(slices, parts)
    wanted = {n for n, args in enumerate(own) if calls[n] >= 0 and not args.keys() >= _DESCRIBING}
    inside = np.full(calls.size, -1, np.int64)
    recorders = np.flatnonzero(slices.pairs.named("record_param_comms")[slices.pair]) if len(slices) else calls
    outer = _outermost(slices, recorders, slices.pairs.in_categories("collective"))
    recorder_of = dict(zip(outer.tolist(), recorders.tolist(), strict=True))
    for n in wanted:
        inside[n] = recorder_of.get(int(calls[n]), int(calls[n]))
    fallback = _args(slices, inside)
    return [_joined(args, fallback[n]) if n in wanted else args for n, args in enumerate(own)]


def _joined(own: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    name = "Collective name"
    return own if name in own and record.get(name, own[name]) != own[name] else record | own


def _args(slices: Slices, rows: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    known = np.flatnonzero(rows >= 0)
    found: list[dict[str, Any]] = [{} for _ in range(rows.size)]
    if known.size:
        for place, text in zip(known.tolist(), slices.texts("args", rows[known]).to_pylist(), strict=True):
            found[place] = _object(text)
    return found


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _configured(metadata: Mapping[str, object]) -> Groups:
    """The groups of ``distributedInfo.pg_config``."""
    groups = Groups()
    info = metadata.get("distributedInfo")
    config = info.get("pg_config") if isinstance(info, dict) else None
    for entry in config if isinstance(config, list) else []:
        name = _text(entry.get("pg_name")) if isinstance(entry, dict) else None
        if name is not None:
            groups.add(name, entry.get("pg_desc"), _ranks(entry.get("ranks")))
    return groups


def _name(slices: Slices, row: int) -> str:
    return slices.pairs.names[int(slices.pairs.name[slices.pair[row]])] if row >= 0 else ""


@lru_cache(maxsize=4096)
def _kind(*names: str) -> str:
    """The kind that the first of these names tells; ``other`` where none does."""
    for name in names:
        text = name.split("<")[0].split("(")[0]
        for pattern, kind in KINDS:
            if pattern.search(text):
                return kind
    return "other"


def _group_kind(description: str | None) -> str | None:
    words = re.findall(r"[a-z]+", (description or "").lower())
    return next((kind for word, kind in _GROUP_KINDS if word in words or f"mesh_{word}" in (description or "")), None)


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _bytes(args: Mapping[str, Any], key: str) -> int | None:
    count, size = _whole(args.get(key)), _ELEMENT_BYTES.get(str(args.get("dtype", "")).lower())
    return count * size if count is not None and size is not None and count < 1 << 58 else None


def _peer(args: Mapping[str, Any], kind: str) -> int | None:
    key = {"send": "Dst Rank", "recv": "Src Rank"}.get(kind)
    return _whole(args.get(key)) if key else None


def _ranks(value: object) -> list[int] | None:
    """Ranks as a list, or as its JSON text; None for anything else, and for a list that was cut short with dots."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list) or not value or len(value) > _MOST_RANKS:
        return None
    ranks = [_whole(rank) for rank in value]
    return [rank for rank in ranks if rank is not None] if None not in ranks else None
