"""Steps: where each begins and ends, how many backward passes it has, and whether it was preparation.

``prof.step()`` says so itself. Without it, optimizers do: in a program with several, they step in turn, and a step ends
when the last of a turn has stepped. Where there is no optimizer, ``step_by`` names the ``record_function`` range
whose end is the end of a step. Gradient accumulation shows in ``micro_steps``: backward passes, not loader batches.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ...profiler.recording.collector import CaptureContext, StepEnd
from .patching import Patches


class StepsCollector:
    """Writes ``steps``, and tells the session when an optimizer or a named range ends one."""

    name = "steps"
    details = ("always", "low", "normal", "deep")
    needs = ("torch",)

    def __init__(self) -> None:
        self._hook: Any = None
        self._patches: Patches | None = None
        self._backward_at: deque[int] = deque()
        self._turn: list[int] = []
        self._last_of_turn: int | None = None
        self._prepared = False
        self._compiled_before = 0

    def available(self) -> str | None:
        """Always."""
        return None

    def start(self, context: CaptureContext) -> None:
        """Hooks backward passes and, unless a range decides, optimizers."""
        import torch

        self._context = context
        self._patches = Patches(context, self.name)
        self._patches.around(torch.autograd, "backward", self._count_backward)
        range_name = context.settings["step_by"]
        if range_name is None:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            self._hook = register_optimizer_step_post_hook(context.guarded(self.name, self._optimizer_stepped))
            return
        self._range_name = range_name
        self._patches.around(torch.autograd.profiler.record_function, "__exit__", self._is_the_range, self._range_ended)

    def stop(self) -> None:
        """Takes the hooks off."""
        if self._hook is not None:
            self._hook.remove()
        if self._patches is not None:
            self._patches.remove()

    def _count_backward(self, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> None:
        self._backward_at.append(self._context.rows.now())

    def _optimizer_stepped(self, optimizer: Any, *_arguments: Any) -> None:
        """Several optimizers take turns; the last one of the turn before ends the step."""
        if not self._context.active:
            return
        key = id(optimizer)
        if key in self._turn:
            self._last_of_turn = self._turn[-1]
            self._turn.clear()
        self._turn.append(key)
        if self._last_of_turn is None or key == self._last_of_turn:
            self._context.mark_step("optimizer")

    def _is_the_range(self, arguments: tuple[Any, ...], _named: dict[str, Any]) -> bool | None:
        return True if getattr(arguments[0], "name", None) == self._range_name else None

    def _range_ended(self, _token: Any, _result: Any, _error: BaseException | None) -> None:
        self._context.mark_step("annotation")

    def wants_next_step(self) -> bool:
        """Until the program is prepared: whether a step has compiled is known only at its end."""
        return not self._prepared

    def on_step(self, step: StepEnd) -> None:
        """Writes the step's row."""
        compiled = _frames_compiled()
        if not self._prepared:
            # The first step allocates and initialises; those after it belong to preparation while they still compile.
            self._prepared = step.step > 0 and compiled == self._compiled_before
        self._compiled_before = compiled
        self._write(step)

    def on_past_steps(self, steps: list[StepEnd]) -> None:
        """Writes the rows of steps after the preparation."""
        for step in steps:
            self._write(step)

    def _write(self, step: StepEnd) -> None:
        phase = "warm_up" if step.phase == "warm_up" else "execution" if self._prepared else "preparation"
        self._context.rows.append(
            "steps", step=step.step, ts=step.ts, dur=step.end - step.ts, basis="host", phase=phase,
            micro_steps=self._backward_passes_until(step.end) or None,
        )  # fmt: skip

    def _backward_passes_until(self, end: int) -> int:
        passes = 0
        while self._backward_at and self._backward_at[0] < end:
            self._backward_at.popleft()
            passes += 1
        return passes


def _frames_compiled() -> int:
    """How many frames torch.compile has compiled so far; 0 where it has not been imported."""
    import sys

    utils = sys.modules.get("torch._dynamo.utils")
    return sum(utils.counters["frames"].values()) if utils is not None else 0
