"""A small training run on the simulated accelerator, of the kind that a project gates in CI.

    stallscope record -o runs/new samples/gated_training.py

benchmarks/gate_changes.py edits a copy of this file in four ways that make it worse, and shows what the gate says of
each. The device takes far longer than the host, so that a busy machine changes little.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from stallscope.samples import simulated_accelerator

BATCH = 8
LENGTH = 32
WIDTH = 256
LAYERS = 6


class Sequences(Dataset[torch.Tensor]):
    """Made-up sequences, one batch an item."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        """How many batches there are."""
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        """One batch: (BATCH, LENGTH, WIDTH)."""
        generator = torch.Generator().manual_seed(index)
        return torch.randn(BATCH, LENGTH, WIDTH, generator=generator)


class Encoder(nn.Module):
    """Some layers, the mean over the sequence and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One vector for each sequence: (BATCH, WIDTH)."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        pooled = x.mean(dim=1)
        found: torch.Tensor = self.head(pooled)
        return found


def train(steps: int) -> float:
    """The loss after some steps."""
    model = Encoder().to("sim")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    value = 0.0
    for batch in DataLoader(Sequences(steps), batch_size=None):
        loss = model(batch.to("sim")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def main() -> None:
    """Trains for some steps and prints the loss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    torch.set_num_threads(1)
    simulated_accelerator.load()
    simulated_accelerator.set_speed("tensor", 1e12, overhead_ns=2_000_000)
    simulated_accelerator.configure(compile_ns=3_000_000, compiled_load_ns=3_000_000)
    print(f"loss {train(steps):.3f}")


if __name__ == "__main__":
    main()
