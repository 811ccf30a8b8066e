"""Queues, streams and events: when operations run, as the engine log tells it."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

MS = 1_000_000


def rows(log: Any, name: str) -> Any:
    """Positions in the log of the operations whose name contains ``name``."""
    return np.flatnonzero(np.array([name in log.names[code] for code in log.name]))


def slow(sim: Any, queue: str, ms: int) -> None:
    """Makes every operation of a queue take at least that long."""
    sim.set_speed(queue, overhead_ns=ms * MS)


def check_consistent(log: Any) -> None:
    """What must hold for any log: no queue does two things at once, and nothing starts before it can."""
    for device in np.unique(log.device):
        for queue in np.unique(log.queue):
            mine = (log.device == device) & (log.queue == queue)
            assert np.all(log.start_ns[mine][1:] >= log.end_ns[mine][:-1])
        for stream in np.unique(log.stream):
            mine = (log.device == device) & (log.stream == stream)
            order = np.argsort(log.launch_ns[mine], kind="stable")
            assert np.all(log.start_ns[mine][order][1:] >= log.end_ns[mine][order][:-1]), "a stream keeps its order"
    for bound in ("arrival_ns", "stream_ready_ns", "event_ready_ns"):
        assert np.all(log.start_ns >= getattr(log, bound))
    assert np.all(log.end_ns > log.start_ns)


def test_a_training_run_leaves_a_consistent_log(sim: Any) -> None:
    from .models import train

    train("transformer", "sim", steps=2)
    log = sim.engine_log()
    check_consistent(log)
    assert log.dropped == 0
    ready = np.maximum(np.maximum(log.arrival_ns, log.stream_ready_ns), log.event_ready_ns)
    previous_end = log.start_ns - log.idle_before_ns
    assert np.all((log.start_ns == ready) | (log.start_ns == previous_end)), "it starts as soon as it can"


def test_durations_are_overhead_plus_work_over_speed(sim: Any) -> None:
    sim.set_speed("tensor", 1e8, overhead_ns=10_000)
    sim.set_speed("vector", 1e7, overhead_ns=20_000)
    a, b = torch.ones(30, 40, device="sim"), torch.ones(40, 50, device="sim")
    torch.accelerator.synchronize()
    sim.reset_engine_log()
    _ = (a @ b).add_(1)
    log = sim.engine_log()
    product, addition = rows(log, "mm_kernel")[0], rows(log, "add_kernel")[0]
    assert log.flops[product] == 2 * 30 * 40 * 50
    assert log.end_ns[product] - log.start_ns[product] == 10_000 + 2 * 30 * 40 * 50 * 10
    assert log.bytes[addition] in range(2 * 30 * 50 * 4, 2 * 30 * 50 * 4 + 9)  # read and written; and the number
    assert log.end_ns[addition] - log.start_ns[addition] == 20_000 + log.bytes[addition] * 100


def test_the_host_does_not_wait_for_the_device(sim: Any) -> None:
    slow(sim, "vector", 20)
    x = torch.zeros(4, device="sim")
    torch.accelerator.synchronize()
    before = time.perf_counter()
    for _ in range(10):
        x.add_(1)
    launched = time.perf_counter() - before
    torch.accelerator.synchronize()
    finished = time.perf_counter() - before
    assert launched < 0.1
    assert finished >= 0.2
    assert x.tolist() == [10] * 4


def test_synchronizing_lasts_until_the_end_in_the_log(sim: Any) -> None:
    slow(sim, "vector", 30)
    x = torch.zeros(4, device="sim") + 1
    torch.accelerator.synchronize()
    now = time.time_ns()
    assert now >= sim.engine_log(wait=False).end_ns.max()
    assert x.sum().item() == 4


def test_queues_of_one_device_run_at_the_same_time_in_two_streams(sim: Any) -> None:
    slow(sim, "vector", 20)
    slow(sim, "tensor", 20)
    a = torch.ones(4, 4, device="sim")
    side = torch.Stream(device="sim")
    torch.accelerator.synchronize()
    sim.reset_engine_log()
    _ = a + 1
    with side:
        _ = a @ a
    log = sim.engine_log()
    check_consistent(log)
    addition, product = rows(log, "add_kernel")[0], rows(log, "mm_kernel")[0]
    assert log.stream[addition] != log.stream[product]
    assert log.start_ns[product] < log.end_ns[addition]


def test_one_queue_is_shared_by_two_streams(sim: Any) -> None:
    slow(sim, "vector", 20)
    a = torch.ones(4, device="sim")
    side = torch.Stream(device="sim")
    torch.accelerator.synchronize()
    sim.reset_engine_log()
    _ = a + 1
    with side:
        _ = a + 2
    log = sim.engine_log()
    check_consistent(log)
    first, second = rows(log, "add_kernel")
    assert log.start_ns[second] == log.end_ns[first]


def test_a_stream_waits_for_the_event_of_another(sim: Any) -> None:
    slow(sim, "vector", 30)
    a = torch.zeros(4, 4, device="sim")
    side = torch.Stream(device="sim")
    torch.accelerator.synchronize()
    sim.reset_engine_log()
    a.add_(2)
    event = torch.Event(device="sim")
    event.record()
    assert not event.query()
    side.wait_event(event)
    with side:
        product = a @ a
    event.synchronize()
    assert event.query()
    log = sim.engine_log()
    check_consistent(log)
    addition, multiplication = rows(log, "add_kernel")[0], rows(log, "mm_kernel")[0]
    assert log.start_ns[multiplication] == log.end_ns[addition] == log.event_ready_ns[multiplication]
    assert sim.IDLE_REASONS[log.idle_reason[multiplication]] in ("event", "first")
    assert product.cpu()[0, 0].item() == 16


def test_events_measure_device_time(sim: Any) -> None:
    sim.set_speed("vector", 1e15, overhead_ns=12 * MS)
    x = torch.zeros(4, device="sim")
    torch.accelerator.synchronize()
    start, end = (torch.Event(device="sim", enable_timing=True) for _ in range(2))
    start.record()
    x.add_(1)
    x.add_(1)
    end.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    assert 24 <= start.elapsed_time(end) < 60


def test_a_full_launch_queue_blocks_the_host(sim: Any) -> None:
    slow(sim, "vector", 10)
    x = torch.zeros(4, device="sim")
    torch.accelerator.synchronize()
    sim.configure(launch_limit=4)
    before = time.perf_counter()
    for _ in range(12):
        x.add_(1)
    launched = time.perf_counter() - before
    assert launched >= 0.07  # 12 launches, 4 of them in flight: eight have ended, give or take
    log = sim.engine_log()
    adds = rows(log, "add_kernel")
    in_flight = [
        int((log.end_ns[adds] > log.launch_ns[row]).sum() - (log.launch_ns[adds] > log.launch_ns[row]).sum())
        for row in adds
    ]
    assert max(in_flight) == 4


def test_idle_reasons(sim: Any) -> None:
    slow(sim, "vector", 5)
    slow(sim, "tensor", 5)
    a = torch.ones(4, 4, device="sim")
    torch.accelerator.synchronize()
    sim.reset_engine_log()
    b = a + 1
    torch.accelerator.synchronize()
    time.sleep(0.02)
    c = b + 1  # the vector queue had nothing to do
    d = c @ c
    _ = d + 1  # and now waits for the product in its stream
    _ = d + 2  # which is not idle at all
    log = sim.engine_log()
    reasons = [sim.IDLE_REASONS[reason] for reason in log.idle_reason[rows(log, "add_kernel")]]
    assert reasons == ["first", "empty", "blocked", "none"]
    idle = log.idle_before_ns[rows(log, "add_kernel")]
    assert idle[1] >= 20 * MS
    product = rows(log, "mm_kernel")[0]
    assert idle[2] == log.end_ns[product] - log.start_ns[product]
    assert idle[3] == 0


def test_busy_time_is_the_union_of_the_queues(sim: Any) -> None:
    from .models import train

    train("perceptron", "sim", steps=2)
    log = sim.engine_log()
    start, end = int(log.start_ns.min()), int(log.end_ns.max())
    middle = (start + end) // 2
    for low, high in ((start, end), (start - 5, middle), (middle, end + 100)):
        stamps = np.unique(np.clip(np.concatenate((log.start_ns, log.end_ns)), low, high))
        expected = sum(
            int(right - left)
            for left, right in itertools.pairwise(stamps)
            if np.any((log.start_ns <= left) & (log.end_ns >= right))
        )
        assert log.busy_ns(0, low, high) == expected
    assert log.busy_ns(1, start, end) == 0


def test_the_log_is_bounded(sim: Any) -> None:
    sim.set_engine_log_capacity(10)
    try:
        x = torch.zeros(4, device="sim")
        for _ in range(25):
            x.add_(1)
        log = sim.engine_log()
        assert len(log) == 10
        assert log.dropped == 16
    finally:
        sim.set_engine_log_capacity(500_000)


def test_threads_of_the_host_launch_at_once(sim: Any) -> None:
    totals = []

    def work(value: int) -> None:
        stream = torch.Stream(device="sim")
        with stream:
            x = torch.zeros(8, device="sim")
            for _ in range(200):
                x.add_(value)
            totals.append(x.sum().item() == 200 * 8 * value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [True] * 4
    check_consistent(sim.engine_log())


def test_an_error_on_the_device_surfaces_at_the_next_synchronization(sim: Any) -> None:
    table = torch.ones(3, 2, device="sim")
    rows_out_of_range = torch.nn.functional.embedding(torch.tensor([7], device="sim"), table)
    with pytest.raises(RuntimeError, match=r"embedding.*index out of range"):
        torch.accelerator.synchronize()
    with pytest.raises(RuntimeError, match="failed earlier"):
        rows_out_of_range.sum().item()
    sim.clear_error(0)
    assert (table + 1).sum().item() == 12


def test_settings_are_checked(sim: Any) -> None:
    from stallscope.profiler.recording.errors import UsageError

    for wrong in (
        lambda: sim.set_speed("warp", 1e9),
        lambda: sim.set_speed("vector", 0),
        lambda: sim.set_speed("vector", 1e9, device=2),
        lambda: sim.configure(launch_limits=3),
        lambda: sim.configure(launch_limit=-1),
        lambda: sim.set_engine_log_capacity(0),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_settings_of_one_device_leave_the_other_alone(sim: Any) -> None:
    before = sim.settings(0)
    sim.set_speed("dma_in", 123e6, overhead_ns=77, device=1)
    sim.configure(launch_limit=9, device=1)
    assert sim.settings(0) == before
    assert sim.settings(1).work_per_s["dma_in"] == 123e6
    assert sim.settings(1).overhead_ns["dma_in"] == 77
    assert sim.settings(1).launch_limit == 9
