"""Collectives: what kind, of which group, how many bytes, to whom; and which slices are their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallscope.profiler.recording.reader import Recording

from .small_traces import Event, call, imported, kernel, op, rows

RECORD = {
    "Collective name": "allreduce",
    "In msg nelems": 1000,
    "Out msg nelems": 1000,
    "dtype": "Float",
    "Process Group Name": "7",
    "Process Group Description": "mesh_tp",
    "Process Group Ranks": "[0, 2, 4]",
    "Seq": 41,
}


def params(ts: float, dur: float, **args: Any) -> Event:
    return op("record_param_comms", ts, dur) | {"args": args}


def device_part(name: str, ts: float, dur: float, correlation: int, args: dict[str, Any] | None = None) -> Event:
    event = kernel(name, ts, dur, correlation)
    event["args"] |= args or {}
    return event


def launched(collective: str, args: dict[str, Any], kernel_args: dict[str, Any] | None = None) -> list[Event]:
    """A c10d call, the parameters that it records, the launch, and a kernel whose name tells only that it is NCCL's."""
    return [
        op(f"c10d::{collective}", 0, 50), params(5, 40, **args), op("nccl:work", 10, 30, cat="user_annotation"),
        call("cudaLaunchKernelExC", 20, 5, 9),
        device_part("ncclDevKernel_Generic(ncclDevKernelArgs)", 60, 30, 9, kernel_args),
    ]  # fmt: skip


def parts(recording: Recording) -> list[dict[str, Any]]:
    """The rows of collectives with the names of their slices and of their group."""
    name = dict(rows(recording, "slices", "slice_id", "name"))
    group = {row["group_id"]: row["name"] for row in rows(recording, "groups")}
    return [
        row
        | {
            "call": name.get(row["slice_id"]),
            "part": name.get(row["device_slice_id"]),
            "group": group.get(row["group_id"]),
        }
        for row in rows(recording, "collectives")
    ]


def only(recording: Recording, *columns: str) -> tuple[Any, ...]:
    (row,) = parts(recording)
    return tuple(row[column] for column in columns)


FACTS = ("kind", "group", "sequence_number", "in_bytes", "out_bytes", "dtype")


def test_the_hosts_record_describes_a_kernel_that_says_nothing(tmp_path: Path) -> None:
    recording = imported(tmp_path, launched("allreduce_", RECORD))
    assert only(recording, *FACTS) == ("all_reduce", "7", 41, 4000, 4000, "Float")
    assert only(recording, "call", "part") == ("c10d::allreduce_", "ncclDevKernel_Generic(ncclDevKernelArgs)")
    assert only(recording, "peer_rank") == (None,)


def test_a_kernel_that_describes_itself_is_believed_before_the_host(tmp_path: Path) -> None:
    own = RECORD | {
        "Collective name": "_allgather_base",
        "In msg nelems": 10,
        "Out msg nelems": 30,
        "dtype": "BFloat16",
    }
    recording = imported(tmp_path, launched("allreduce_", RECORD, own))
    assert only(recording, *FACTS) == ("all_gather", "7", 41, 20, 60, "BFloat16")


def test_what_a_kernel_leaves_out_is_taken_from_the_host(tmp_path: Path) -> None:
    own = {name: RECORD[name] for name in ("Collective name", "In msg nelems", "Out msg nelems", "dtype")}
    recording = imported(tmp_path, launched("allreduce_", RECORD, own))
    assert only(recording, *FACTS) == ("all_reduce", "7", 41, 4000, 4000, "Float")


def test_a_record_of_another_collective_fills_no_gap(tmp_path: Path) -> None:
    own = {"Collective name": "broadcast", "In msg nelems": 5, "dtype": "Half"}
    recording = imported(tmp_path, launched("allreduce_", RECORD, own))
    assert only(recording, *FACTS) == ("broadcast", None, None, 10, None, "Half")


def test_without_any_args_the_call_tells_the_kind_and_nothing_else_is_claimed(tmp_path: Path) -> None:
    recording = imported(tmp_path, launched("alltoall_base_", {}))
    assert only(recording, *FACTS) == ("all_to_all", None, None, None, None, None)
    assert rows(recording, "groups") == []


def test_a_kernel_without_a_launch_is_a_part_of_its_own(tmp_path: Path) -> None:
    recording = imported(
        tmp_path, [op("aten::mm", 0, 9), device_part("ncclDevKernel_ReduceScatter_Sum_f32", 60, 30, 9)]
    )
    assert only(recording, "kind", "slice_id", "call", "part") == (
        "reduce_scatter", None, None, "ncclDevKernel_ReduceScatter_Sum_f32",
    )  # fmt: skip


def test_each_kernel_of_one_call_is_a_part(tmp_path: Path) -> None:
    events = [*launched("allreduce_coalesced_", RECORD), device_part("ncclDevKernel_Generic(2)", 95, 5, 9)]
    found = parts(imported(tmp_path, events))
    assert [row["part"] for row in found] == ["ncclDevKernel_Generic(ncclDevKernelArgs)", "ncclDevKernel_Generic(2)"]
    assert {row["call"] for row in found} == {"c10d::allreduce_coalesced_"}


def test_a_kernel_of_compute_is_no_part(tmp_path: Path) -> None:
    events = [op("c10d::allreduce_", 0, 50), call("cudaLaunchKernel", 20, 5, 9), kernel("vectorized_add", 60, 30, 9)]
    recording = imported(tmp_path, events)
    assert [row["part"] for row in parts(recording)] == [None]  # The host's call alone is left.


@pytest.mark.parametrize(
    ("collective", "kind"),
    [
        ("allreduce", "all_reduce"), ("allreduce_coalesced", "all_reduce"), ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"), ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_out", "all_gather"), ("all_to_allv", "all_to_all"), ("all_to_all", "all_to_all"),
        ("broadcast", "broadcast"), ("barrier", "barrier"), ("scatter", "scatter"), ("gather", "gather"),
        ("reduce", "reduce"), ("send", "send"), ("recv", "recv"), ("wait", "other"),
    ],
)  # fmt: skip
def test_kinds(tmp_path: Path, collective: str, kind: str) -> None:
    recording = imported(tmp_path, launched("unknown_", RECORD | {"Collective name": collective}))
    assert only(recording, "kind") == (kind,)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Double", 8), ("Long", 8), ("Float", 4), ("Int", 4), ("BFloat16", 2), ("Half", 2), ("Short", 2), ("Byte", 1),
        ("Char", 1), ("Bool", 1), ("Float8_e4m3fn", 1), ("Float8_e5m2", 1), ("Float8_e4m3fnuz", 1),
        ("Float8_e5m2fnuz", 1), ("ComplexFloat", 8), ("ComplexDouble", 16), ("SomethingNew", None),
    ],
)  # fmt: skip
def test_bytes(tmp_path: Path, dtype: str, size: int | None) -> None:
    args = RECORD | {"Collective name": "_allgather_base", "In msg nelems": 3, "Out msg nelems": 24, "dtype": dtype}
    found = only(imported(tmp_path, launched("x_", args)), "in_bytes", "out_bytes", "dtype")
    assert found == (None if size is None else 3 * size, None if size is None else 24 * size, dtype)


@pytest.mark.parametrize(
    ("collective", "peer"), [("send", 5), ("recv", 3), ("broadcast", None)], ids=["to", "from", "not point to point"]
)
def test_the_peer(tmp_path: Path, collective: str, peer: int | None) -> None:
    args = RECORD | {"Collective name": collective, "Src Rank": 3, "Dst Rank": 5}
    assert only(imported(tmp_path, launched(f"{collective}_", args)), "kind", "peer_rank") == (collective, peer)


def test_numbers_that_cannot_be_are_unknown(tmp_path: Path) -> None:
    args = RECORD | {"In msg nelems": -4, "Out msg nelems": "many", "Seq": True}
    assert only(imported(tmp_path, launched("x_", args)), "in_bytes", "out_bytes", "sequence_number") == (None,) * 3


def test_groups_of_the_trace_and_of_calls_are_one_table(tmp_path: Path) -> None:
    config = [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 6, "ranks": [0, 1, 2, 3, 4, 5]},
        {"pg_name": "7", "pg_desc": "mesh_tp", "ranks": [0, 2, 4]},
        "no group",
    ]
    events = launched("allreduce_", RECORD | {"Process Group Name": "9", "Process Group Description": "undefined"})
    recording = imported(tmp_path, events, distributedInfo={"rank": 0, "world_size": 6, "pg_config": config})
    assert rows(recording, "groups", "name", "description", "ranks", "kind") == [
        ("0", "default_pg", [0, 1, 2, 3, 4, 5], None), ("7", "mesh_tp", [0, 2, 4], "tp"), ("9", None, [0, 2, 4], None),
    ]  # fmt: skip
    assert only(recording, "group") == ("9",)


def test_a_list_of_ranks_that_was_cut_short_is_unknown(tmp_path: Path) -> None:
    recording = imported(tmp_path, launched("x_", RECORD | {"Process Group Ranks": "[0, 1, 2, ..., 511]"}))
    assert rows(recording, "groups", "name", "ranks") == [("7", None)]


def test_gloo_has_its_parts_on_the_host(tmp_path: Path) -> None:
    events = [
        op("c10d::allreduce_", 0, 50), params(5, 40, **RECORD),
        op("gloo:all_reduce", 20, 200, cat="user_annotation", tid=555),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    assert only(recording, "kind", "call", "device_slice_id") == ("all_reduce", "gloo:all_reduce", None)


def test_without_a_backends_slice_the_outermost_call_of_the_host_counts_once(tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("aten::x", 0, 99), op("c10d::broadcast_", 1, 50), params(5, 40, **RECORD)])
    assert only(recording, *FACTS[:4]) == ("all_reduce", "7", 41, 4000)  # What the record says counts.
    assert only(recording, "call", "device_slice_id") == ("c10d::broadcast_", None)


def test_damaged_args_leave_the_part(tmp_path: Path) -> None:
    recording = imported(tmp_path, launched("allreduce_", {"Process Group Ranks": "[[[", "dtype": 3, "Seq": 1 << 80}))
    assert only(recording, "kind", "sequence_number", "in_bytes") == ("all_reduce", None, None)
