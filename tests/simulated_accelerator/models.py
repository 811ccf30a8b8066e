"""Small models that between them use what a training run uses."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = Attention(width, 4)
        self.before_perceptron = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.perceptron(self.before_perceptron(x))


class Transformer(nn.Module):
    def __init__(self, tokens: int = 100, width: int = 32, layers: int = 6, length: int = 16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(places)))).flatten(0, 1)


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Dropout(0.0), nn.Linear(64, 10)
    )


def convolutional() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1, stride=2, groups=2), nn.GroupNorm(4, 16), nn.SiLU()),
        *(nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Hardswish(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(32, 10)),
    )


MODELS: dict[str, Any] = {"perceptron": perceptron, "convolutional": convolutional, "transformer": Transformer}


def batches(name: str, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and classes for a model, on the CPU; the same for the same seed."""
    if name == "transformer":
        return [(torch.randint(0, 100, (4, 16)), torch.randint(0, 100, (64,))) for _ in range(count)]
    shape = (16, 32) if name == "perceptron" else (8, 3, 16, 16)
    return [(torch.randn(shape), torch.randint(0, 10, (shape[0],))) for _ in range(count)]


def train(
    name: str, device: str, *, steps: int = 4, foreach: bool | None = None, backend: str | None = None
) -> list[float]:
    """The losses of a short training run with AdamW."""
    torch.manual_seed(0)
    model = MODELS[name]()
    data = batches(name, 2) * (steps // 2) or batches(name, 1)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=foreach)
    forward = torch.compile(model, backend=backend) if backend else model
    losses = []
    for inputs, classes in data:
        loss = nn.functional.cross_entropy(forward(inputs.to(device)), classes.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
