"""A model from a factory, trained for some steps on a device: what a process of ``stallscope coverage`` runs.

A factory is a function without arguments that returns ``(model, batch, loss)``: a module on the CPU; a function of the
step's number that returns ``(inputs, targets)`` on the CPU, where inputs is a tensor, a tuple of arguments or a dict of
named ones; and a function of ``(outputs, targets)`` that returns a scalar, or None for a model that is only called.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..recording.errors import UsageError
from .coverage_task import CoverageTask

BLOCKS = 3
"""Steady steps are timed in this many blocks: their spread says how much the mean of one is worth."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a factory made: see the module."""

    model: Any
    batch: Callable[[int], tuple[Any, Any]]
    loss: Callable[[Any, Any], Any] | None


def prepare(imports: tuple[str, ...]) -> None:
    """Imports what registers the device, and calls it where a function is named.

    Raises:
        UsageError: A module or function is not there.
    """
    for name in imports:
        module, _, function = name.partition(":")
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UsageError(f"--import {name}: {error}.", hint="Is it installed in this environment?") from error
        if function:
            _member(loaded, function, f"--import {name}")()


def load_workload(factory: str) -> Workload:
    """Calls the factory, with every random number generator at its start.

    Raises:
        UsageError: There is no such factory, or it returns something else than ``(model, batch, loss)``.
    """
    place, _, function = factory.rpartition(":")
    module = _file_module(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    import torch

    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    made = _member(module, function, f"the factory {factory}")()
    if not isinstance(made, tuple) or len(made) != 3 or not isinstance(made[0], torch.nn.Module):
        raise UsageError(
            f"the factory {factory} returned {type(made).__name__}, expected (model, batch, loss).",
            hint="docs/coverage.md shows one.",
        )
    return Workload(*made)


def _file_module(file: Path) -> ModuleType:
    sys.path.insert(0, str(file.resolve().parent))
    name = f"coverage_factory_{file.stem}"  # a file of the user's may be called random.py
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _member(module: ModuleType, name: str, asked: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"{asked}: {module.__name__} has no function {name!r}.")
    return found


class Training:
    """A workload on a device, in a precision, with an optimizer.

    Args:
        workload: What to train.
        task: The device, precision, optimizer and kind.
    """

    def __init__(self, workload: Workload, task: CoverageTask) -> None:
        import torch

        self.torch: Any = torch
        self.device = torch.device(task.device)
        self.dtype = getattr(torch, task.precision, None)
        if not isinstance(self.dtype, torch.dtype):
            raise UsageError(f"the precision is {task.precision!r}, expected a type of torch such as float32.")
        self._optimizer_class: Any = getattr(torch.optim, task.optimizer, None)
        if self._optimizer_class is None:
            raise UsageError(f"the optimizer is {task.optimizer!r}, expected a class of torch.optim such as AdamW.")
        self.trains = workload.loss is not None
        self._loss = workload.loss
        self._batch = workload.batch
        self.model = workload.model.to(device=self.device, dtype=self.dtype).train(self.trains)
        self.forward = torch.compile(self.model, backend=task.backend) if task.kind != "eager" else self.model
        self.new_optimizer()

    def new_optimizer(self) -> None:
        """An optimizer at its start, which makes its state in the next step."""
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        self._optimizer = self._optimizer_class(parameters, lr=1e-4) if self.trains and parameters else None

    def batch(self, number: int) -> tuple[Any, Any]:
        """The batch of a step on the CPU, in the precision of the model."""
        inputs, targets = self._batch(number)
        return moved(inputs, "cpu", self.dtype), moved(targets, "cpu", self.dtype)

    def pass_(self, batch: tuple[Any, Any]) -> tuple[Any, Any]:
        """The outputs and the loss of a batch that is on the CPU, and its gradients; the loss is None without one."""
        inputs, targets = moved(batch, self.device)
        if self._loss is None:
            with self.torch.no_grad():
                return called(self.forward, inputs), None
        outputs = called(self.forward, inputs)
        loss = self._loss(outputs, targets)
        loss.backward()
        return outputs, loss

    def step(self, batch: tuple[Any, Any]) -> None:
        """One training step."""
        if self._optimizer is not None:
            self._optimizer.zero_grad()
        self.pass_(batch)
        if self._optimizer is not None:
            self._optimizer.step()

    def synchronize(self) -> None:
        """Waits until the device has done everything."""
        if self.device.type == "cpu":
            return
        accelerator = getattr(self.torch, "accelerator", None)
        module = accelerator if accelerator is not None else getattr(self.torch, self.device.type)
        module.synchronize()

    def timed(self, batches: list[tuple[Any, Any]]) -> int:
        """How long the steps take together, the device's work included [ns]."""
        self.synchronize()
        began = time.perf_counter_ns()
        for batch in batches:
            self.step(batch)
        self.synchronize()
        return time.perf_counter_ns() - began

    def peak_device_bytes(self) -> int | None:
        """The most memory that tensors have held on the device; None where its backend does not say."""
        for module in (getattr(self.torch, self.device.type, None), getattr(self.torch, "accelerator", None)):
            try:
                if self.device.type != "cpu" and module is not None:
                    return int(module.max_memory_allocated())
            except (AttributeError, RuntimeError, NotImplementedError, AssertionError):
                continue
        return None


def called(function: Any, inputs: Any) -> Any:
    """The function with a tensor, a tuple of arguments, or a dict of named ones."""
    if isinstance(inputs, dict):
        return function(**inputs)
    return function(*inputs) if isinstance(inputs, (tuple, list)) else function(inputs)


def moved(value: Any, device: Any, dtype: Any = None) -> Any:
    """Tensors, also in tuples, lists and dicts, on another device, floating-point ones in another type."""
    if isinstance(value, (tuple, list)):
        return type(value)(moved(one, device, dtype) for one in value)
    if isinstance(value, dict):
        return {key: moved(one, device, dtype) for key, one in value.items()}
    if not hasattr(value, "is_floating_point"):
        return value
    return value.to(device=device, dtype=dtype if value.is_floating_point() else None)
