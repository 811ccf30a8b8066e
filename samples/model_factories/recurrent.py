"""A gated recurrent network, written out step by step: many small ops, each waiting for the one before it."""

from __future__ import annotations

import torch
from torch import nn

FEATURES = 16
STATE = 32
LENGTH = 12


class Gated(nn.Module):
    """One layer with an update and a reset gate, and a linear head on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(FEATURES + STATE, 2 * STATE)
        self.candidate = nn.Linear(FEATURES + STATE, STATE)
        self.head = nn.Linear(STATE, 4)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Logits of each sequence."""
        state = sequences.new_zeros(sequences.shape[0], STATE)
        for features in sequences.unbind(dim=1):
            update, reset = self.gates(torch.cat((features, state), dim=1)).sigmoid().chunk(2, dim=1)
            new = self.candidate(torch.cat((features, reset * state), dim=1)).tanh()
            state = torch.lerp(state, new, update)
        logits: torch.Tensor = self.head(state)
        return logits


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sixteen sequences and their classes."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(16, LENGTH, FEATURES, generator=generator), torch.randint(0, 4, (16,), generator=generator)


def make() -> tuple[nn.Module, object, object]:
    """The factory."""
    return Gated(), batch, nn.functional.cross_entropy
