"""A small training run with two ordinary mistakes, for ``./run demo``: see what a recording says of them.

    stallscope record -o runs/demo samples/demo_training.py

It trains a transformer of four layers on random tokens, on the simulated accelerator (a real PyTorch device, built on
first use), or on the CPU where there is no C++ compiler. The data set tokenises in the training process, and the loss
is read back in every step.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 64
WORDS = 1000


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """Random reviews, tokenised when they are asked for: the first mistake."""

    def __len__(self) -> int:
        """How many there are."""
        return 4096

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """The tokens of one review, and whether it is a good one."""
        words = [f"word{(index * 31 + place * 17) % 997}" for place in range(3 * LENGTH)]
        tokens = [sum(ord(letter) * 31**place for place, letter in enumerate(word)) % WORDS for word in words]
        return torch.tensor(tokens[:LENGTH]), index % 2


class Classifier(nn.Module):
    """Embedding, four transformer layers and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Two logits for each review."""
        logits: torch.Tensor = self.head(self.encoder(self.embedding(tokens)).mean(dim=1))
        return logits


def device() -> torch.device:
    """The simulated accelerator; the CPU, with the reason, where it cannot be built."""
    from stallscope.samples import simulated_accelerator

    reason = simulated_accelerator.unavailable_reason()
    if reason:
        print(f"Training on the CPU: {reason}")
        return torch.device("cpu")
    simulated_accelerator.load(progress=print)
    return torch.device("sim")


def main() -> None:
    """Trains for some steps and prints the loss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    torch.set_num_threads(1)
    where = device()
    model = Classifier().to(where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (tokens, labels) in zip(range(steps), DataLoader(Reviews(), batch_size=32), strict=False):
        loss = nn.functional.cross_entropy(model(tokens.to(where)), labels.to(where))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        value = loss.item()  # the second mistake: waits for the device in every step
        if step % 10 == 0:
            print(f"step {step:3d}  loss {value:.3f}")


if __name__ == "__main__":
    main()
