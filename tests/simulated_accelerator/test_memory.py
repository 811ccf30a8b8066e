"""The caching allocator, pinned memory and what torch.accelerator says about them."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

MB = 1 << 20


@pytest.fixture
def empty(sim: Any) -> Any:
    gc.collect()
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    assert torch.accelerator.memory_allocated() == 0
    assert torch.accelerator.memory_reserved() == 0
    return sim


def stats(device: int = 0) -> dict[str, int]:
    return dict(torch.accelerator.memory_stats(device))


def test_statistics_follow_allocations(empty: Any) -> None:
    tensor = torch.empty(3 * MB, dtype=torch.uint8, device="sim")
    small = torch.empty(100, dtype=torch.uint8, device="sim")
    now = stats()
    assert now["allocated_bytes.all.current"] == 3 * MB + 512
    assert now["requested_bytes.all.current"] == 3 * MB + 100
    assert now["allocation.small_pool.current"] == 1
    assert now["reserved_bytes.all.current"] == 22 * MB
    assert now["segment.all.current"] == 2
    del tensor, small
    after = stats()
    assert after["allocated_bytes.all.current"] == 0
    assert after["allocated_bytes.all.peak"] == 3 * MB + 512
    assert after["reserved_bytes.all.current"] == 22 * MB, "memory is kept for the next tensor"
    torch.accelerator.empty_cache()
    assert stats()["reserved_bytes.all.current"] == 0
    assert stats()["num_device_free"] == 2


def test_freed_memory_is_given_out_again(empty: Any) -> None:
    addresses = set()
    for _ in range(20):
        addresses.add(torch.empty(2 * MB, dtype=torch.uint8, device="sim").data_ptr())
    assert len(addresses) == 1
    assert stats()["num_device_alloc"] == 1


def test_neighbours_join_when_freed(empty: Any) -> None:
    blocks = [torch.empty(4 * MB, dtype=torch.uint8, device="sim") for _ in range(5)]
    assert stats()["segment.all.current"] == 1
    for index in (1, 3, 0, 4, 2):
        blocks[index] = None
    whole = torch.empty(20 * MB - 512, dtype=torch.uint8, device="sim")
    assert stats()["segment.all.current"] <= 2
    del whole
    torch.accelerator.empty_cache()
    assert stats()["reserved_bytes.all.current"] == 0
    assert stats()["inactive_split_bytes.all.current"] == 0


def test_out_of_memory_says_what_and_how_much(empty: Any) -> None:
    empty.configure(memory_capacity=64 * MB)
    kept = torch.empty(40 * MB, dtype=torch.uint8, device="sim")
    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(30 * MB, dtype=torch.uint8, device="sim")
    message = str(raised.value)
    assert "Tried to allocate 30.00 MiB" in message
    assert "of 64.00 MiB only 24.00 MiB is free" in message
    assert stats()["num_ooms"] == 1
    assert torch.empty(20 * MB, dtype=torch.uint8, device="sim").device.type == "sim"
    assert kept.numel() == 40 * MB


def test_cached_memory_is_given_back_before_it_is_out(empty: Any) -> None:
    empty.configure(memory_capacity=64 * MB)
    del (first := [torch.empty(40 * MB, dtype=torch.uint8, device="sim")])[0]
    assert first == []
    assert torch.accelerator.memory_reserved() == 40 * MB
    second = torch.empty(50 * MB, dtype=torch.uint8, device="sim")
    assert stats()["num_alloc_retries"] == 1
    assert torch.accelerator.memory_reserved() == 50 * MB
    assert torch.accelerator.get_memory_info() == (14 * MB, 64 * MB)
    del second


def test_new_memory_costs_the_host_time_and_cached_memory_does_not(empty: Any) -> None:
    empty.configure(malloc_ns=50_000_000)
    before = time.perf_counter()
    torch.empty(2 * MB, dtype=torch.uint8, device="sim")
    assert time.perf_counter() - before >= 0.05
    before = time.perf_counter()
    torch.empty(2 * MB, dtype=torch.uint8, device="sim")
    assert time.perf_counter() - before < 0.045


def test_memory_used_by_another_stream_waits_for_it(empty: Any) -> None:
    empty.set_speed("vector", overhead_ns=50_000_000)
    side = torch.Stream(device="sim")
    block = torch.empty(2 * MB, dtype=torch.uint8, device="sim")
    address = block.data_ptr()
    with side:
        block.fill_(1)
    block.record_stream(side)
    del block
    assert torch.empty(2 * MB, dtype=torch.uint8, device="sim").data_ptr() != address
    side.synchronize()
    assert address in {torch.empty(2 * MB + step, dtype=torch.uint8, device="sim").data_ptr() for step in range(3)} | {
        tensor.data_ptr() for tensor in [torch.empty(2 * MB, dtype=torch.uint8, device="sim") for _ in range(8)]
    }


def test_memory_of_the_second_device_is_its_own(empty: Any) -> None:
    torch.accelerator.synchronize(1)
    before = stats(1)["allocated_bytes.all.current"]
    tensor = torch.empty(MB, dtype=torch.uint8, device="sim:1")
    assert stats(1)["allocated_bytes.all.current"] == before + MB
    assert stats(0)["allocated_bytes.all.current"] == 0
    del tensor


def test_pinned_copies_do_not_block_and_pageable_ones_do(sim: Any) -> None:
    pageable = torch.ones(1000)
    pinned = torch.ones(1000).pin_memory()
    assert pinned.is_pinned()
    assert not pageable.is_pinned()
    target = torch.empty(1000, device="sim")
    torch.accelerator.synchronize()
    sim.set_speed("dma_in", overhead_ns=60_000_000)

    def copying(source: Any, non_blocking: bool) -> float:
        torch.accelerator.synchronize()
        before = time.perf_counter()
        target.copy_(source, non_blocking=non_blocking)
        return time.perf_counter() - before

    assert copying(pinned, True) < 0.05
    assert copying(pinned, False) >= 0.06
    assert copying(pageable, True) >= 0.06
    assert copying(pageable, False) >= 0.06


def test_pinned_memory_of_a_copy_in_flight_is_not_given_out_again(sim: Any) -> None:
    target = torch.empty(1 << 16, device="sim")
    torch.accelerator.synchronize()
    sim.set_speed("dma_in", overhead_ns=60_000_000)
    source = torch.full((1 << 16,), 3.0).pin_memory()
    address = source.data_ptr()
    target.copy_(source, non_blocking=True)
    del source
    other = torch.empty(1 << 16).pin_memory()
    assert other.data_ptr() != address
    torch.accelerator.synchronize()
    assert torch.empty(1 << 16).pin_memory().data_ptr() == address
    assert target.sum().item() == 3.0 * (1 << 16)
