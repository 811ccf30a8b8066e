"""Random programs over streams, events and devices: the device computes what the same program computes on the CPU."""

from __future__ import annotations

import random
from typing import Any

import pytest

from .test_engine import check_consistent

torch = pytest.importorskip("torch")

TENSORS = 6
SHAPE = (12, 12)


class Program:
    """A list of steps, each on a stream, an op and the tensors that it reads and writes.

    Reading or writing a tensor that another stream wrote or read last comes after an event of that stream, as a
    program on a real accelerator must do.
    """

    def __init__(self, seed: int, streams: int) -> None:
        chosen = random.Random(seed)
        self.steps = [
            (
                chosen.randrange(streams),
                chosen.choice(["mm", "add", "tanh", "copy", "fresh", "to_host_and_back", "zero"]),
                chosen.randrange(TENSORS),
                chosen.randrange(TENSORS),
                chosen.randrange(TENSORS),
            )
            for _ in range(120)
        ]
        self.streams = streams

    def on_cpu(self) -> list[Any]:
        tensors = initial("cpu")
        for _, op, a, b, target in self.steps:
            tensors[target] = apply(op, tensors[a], tensors[b], tensors[target])
        return tensors

    def on_device(self) -> list[Any]:
        tensors = initial("sim")
        streams = [torch.Stream(device="sim") for _ in range(self.streams)]
        last: dict[int, dict[int, Any]] = {index: {} for index in range(TENSORS)}
        torch.accelerator.synchronize()
        for number, op, a, b, target in self.steps:
            stream = streams[number]
            for used in {a, b, target}:
                for other, event in last[used].items():
                    if other != number:
                        stream.wait_event(event)
            with stream:
                result = apply(op, tensors[a], tensors[b], tensors[target])
                event = torch.Event(device="sim")
                event.record()
            for used in {a, b, target}:
                last[used][number] = event
                tensors[used].record_stream(stream)
            tensors[target] = result
            last[target] = {number: event}
        torch.accelerator.synchronize()
        return [tensor.cpu() for tensor in tensors]


def initial(device: str) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(SHAPE, generator=generator) / 4).to(device) for _ in range(TENSORS)]


def apply(op: str, a: Any, b: Any, target: Any) -> Any:
    if op == "mm":
        return (a @ b) / 12
    if op == "add":
        return target.add_(a, alpha=0.5).clamp_(-1, 1)
    if op == "tanh":
        return torch.tanh(b)
    if op == "copy":
        return target.copy_(a.T.clone())
    if op == "fresh":
        return torch.full(SHAPE, 0.25, device=a.device) + a
    if op == "to_host_and_back":
        return a.cpu().clone().to(a.device)
    return target.zero_()


@pytest.mark.parametrize("seed", range(12))
def test_a_program_over_streams_computes_what_the_cpu_computes(sim: Any, seed: int) -> None:
    # Queues of very different speed, so that streams overtake each other wherever events allow it.
    sim.set_speed("tensor", 1e9, overhead_ns=(seed % 3) * 200_000)
    sim.set_speed("vector", 1e9, overhead_ns=(seed % 4) * 50_000)
    sim.set_speed("dma_in", 1e9, overhead_ns=(seed % 2) * 300_000)
    sim.configure(launch_limit=(3, 1024)[seed % 2], lookahead_ns=(0, 20_000_000, 1_000_000)[seed % 3])
    program = Program(seed, streams=1 + seed % 4)
    sim.reset_engine_log()
    found = program.on_device()
    for ours, theirs in zip(found, program.on_cpu(), strict=True):
        torch.testing.assert_close(ours, theirs)
    check_consistent(sim.engine_log())
    assert sim.fallback_counts() == {}
