"""Models that do what a backend under development makes models do: crash, hang, fail, fall back, be wrong."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from torch import nn


class Does(nn.Module):
    """A linear layer, after which something happens."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.what = what

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.what(self.layer(x))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(step)), torch.zeros(8, 4)


def abort(x: torch.Tensor) -> torch.Tensor:
    print("logged in with", os.environ.get("PLANTED_TOKEN"))
    os.abort()


def hang(x: torch.Tensor) -> torch.Tensor:
    while True:
        time.sleep(0.05)


def fail(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("no kernel for aten::wonder")


def fall_back(x: torch.Tensor) -> torch.Tensor:
    return torch.special.i0(x)


def be_wrong(x: torch.Tensor) -> torch.Tensor:
    return x if x.device.type == "cpu" else x * 1.01


def crashing() -> tuple[nn.Module, Any, Any]:
    return Does(abort), batch, nn.functional.mse_loss


def hanging() -> tuple[nn.Module, Any, Any]:
    return Does(hang), batch, nn.functional.mse_loss


def failing() -> tuple[nn.Module, Any, Any]:
    return Does(fail), batch, nn.functional.mse_loss


def falling_back() -> tuple[nn.Module, Any, Any]:
    return Does(fall_back), batch, nn.functional.mse_loss


def wrong() -> tuple[nn.Module, Any, Any]:
    return Does(be_wrong), batch, nn.functional.mse_loss


def only_called() -> tuple[nn.Module, Any, None]:
    return Does(torch.relu), lambda step: ({"x": batch(step)[0]}, None), None


def not_a_workload() -> nn.Module:
    return nn.Linear(1, 1)
