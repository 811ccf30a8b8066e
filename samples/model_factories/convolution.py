"""A small residual network for images: convolutions, batch normalisation, pooling."""

from __future__ import annotations

import torch
from torch import nn

CLASSES = 10


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images of the same shape."""
        result: torch.Tensor = nn.functional.relu(x + self.layers(x))
        return result


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight images and their classes."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 3, 24, 24, generator=generator), torch.randint(0, CLASSES, (8,), generator=generator)


def make() -> tuple[nn.Module, object, object]:
    """The factory."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), Residual(16),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.SiLU(), Residual(32),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES),
    )  # fmt: skip
    return model, batch, nn.functional.cross_entropy
