"""A mixture of experts whose shapes depend on the data: sequences of changing length, experts of changing load."""

from __future__ import annotations

import torch
from torch import nn

WIDTH = 32
EXPERTS = 4
LENGTHS = (24, 32, 40)


class Mixture(nn.Module):
    """Each token goes to the two experts that its router likes best; an expert gets as many tokens as chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens of the same shape."""
        weights, chosen = self.router(tokens).softmax(dim=-1).topk(2, dim=-1)
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)  # its length is only known once the device has counted
            result = result.index_add(0, rows, expert(tokens[rows]) * weights[rows, place].unsqueeze(-1))
        return result


class Model(nn.Module):
    """A mixture of experts with a shortcut, and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.mixture = Mixture()
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of each token."""
        logits: torch.Tensor = self.head(tokens + self.mixture(tokens))
        return logits


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As many tokens as the step's turn says, and their classes."""
    generator = torch.Generator().manual_seed(step)
    count = LENGTHS[step % len(LENGTHS)]
    return torch.randn(count, WIDTH, generator=generator), torch.randint(0, 8, (count,), generator=generator)


def make() -> tuple[nn.Module, object, object]:
    """The factory."""
    return Model(), batch, nn.functional.cross_entropy
