"""The two training steps that the capture benchmarks record, and the three ways of running them.

Both steps are one iteration of a language model of six transformer layers and make about 5,000 operators' events; the
small one takes some 8 ms on one core, the large one some 400 ms. What a profiler costs is paid per event, so the two
together say what it costs a program.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import stallscope
from stallscope.collectors.live.torch_options import profiler_arguments
from stallscope.profiler.session import running

VOCABULARY = 512
LAYERS = 6

Mark = Callable[[], int]
"""Ends a step; returns how long recording was paused in it [ns]."""


@dataclass(frozen=True, slots=True)
class Size:
    """A training step.

    Attributes:
        name: small or large.
        width: Of the model.
        length: Of a sequence.
        first: Steps at the start of each block that are timed by themselves: they pay for a profiler's start, once.
        steps: How many are timed after them.
    """

    name: str
    width: int
    length: int
    first: int
    steps: int


SIZES = {"small": Size("small", 64, 32, 8, 25), "large": Size("large", 384, 128, 2, 4)}


def training_step(size: Size, device: str = "cpu") -> Callable[[], None]:
    """A function that trains one step."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(size.width, 4, 4 * size.width, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    embedding, head = nn.Embedding(VOCABULARY, size.width), nn.Linear(size.width, VOCABULARY)
    model = nn.Sequential(embedding, encoder, head).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    tokens = torch.randint(0, VOCABULARY, (4, size.length), device=device)
    targets = torch.randint(0, VOCABULARY, (4 * size.length,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets).backward()
        optimizer.step()

    return step


@contextmanager
def unrecorded() -> Iterator[Mark]:
    """No profiler at all."""
    yield lambda: 0


@contextmanager
def bare_profiler(detail: str, device: str | None = None, result: list[Any] | None = None) -> Iterator[Mark]:
    """Torch's profiler with the options that ``detail`` asks of it, begun and ended around the block.

    Args:
        detail: low, normal or deep.
        device: An accelerator's type, or None.
        result: Gets the finished profiler.
    """
    profiler = torch.autograd.profiler.profile(**profiler_arguments(detail, device, None, stacks=True))
    with profiler:
        yield lambda: 0
    if result is not None:
        result.append(profiler)


@contextmanager
def recorded(path: Path, detail: str, **settings: Any) -> Iterator[Mark]:
    """A recording of ours."""
    with stallscope.profile(path, detail=detail, force=True, **settings) as prof:
        session = running.session()
        assert session is not None

        def mark() -> int:
            before = session.paused_ns
            prof.step()
            return session.paused_ns - before

        yield mark


@dataclass(frozen=True, slots=True)
class Block:
    """A step's mean over a block, without the pauses that the recording itself tells.

    Attributes:
        wall_s: By the clock.
        cpu_s: Of all threads of the process: what other programs take does not count.
        starting_s: The first steps, all together and not in the others, by the clock.
    """

    wall_s: float
    cpu_s: float
    starting_s: float


def timed_block(
    step: Callable[[], None], mark: Mark, first: int, steps: int, settle: Callable[[], None] = lambda: None
) -> Block:
    """Times a block of steps.

    Args:
        step: Trains one step.
        mark: Called after each.
        first: How many stand apart at the start.
        steps: How many are timed after these.
        settle: Waits for the device; called before the first and after the last timed step.
    """
    gc.collect()
    starting = -time.perf_counter_ns()
    for _ in range(first):
        step()
        starting -= mark()
    settle()
    starting += time.perf_counter_ns()
    wall = cpu = 0
    for _ in range(steps):
        began, used = time.perf_counter_ns(), time.process_time_ns()
        step()
        between = time.process_time_ns()
        paused = mark()
        wall += time.perf_counter_ns() - began - paused
        # A pause's own CPU is not told: where there was one, all of what ended the step is left out.
        cpu += (between if paused else time.process_time_ns()) - used
    began, used = time.perf_counter_ns(), time.process_time_ns()
    settle()
    wall, cpu = wall + time.perf_counter_ns() - began, cpu + time.process_time_ns() - used
    return Block(wall / steps / 1e9, cpu / steps / 1e9, starting / 1e9)
