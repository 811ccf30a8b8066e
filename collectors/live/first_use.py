"""The moment at which a program begins to use its model: the first module called, batch fetched or graph run backward.

What comes before (reading data, building the model) can be minutes of plain Python, which torch's profiler would trace
call by call. ``stallscope record`` starts it here; where the program says itself what to record, it starts at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...profiler.recording.collector import CaptureContext
from .patching import Patches


class FirstUse:
    """Calls back once, on the thread that uses the model.

    Args:
        context: The session.
        collector: For whom.
        found: Called at the first use; must call ``remove``.
    """

    def __init__(self, context: CaptureContext, collector: str, found: Callable[[], None]) -> None:
        self._context = context
        self._found = context.guarded(collector, found)
        self._patches = Patches(context, collector)
        self._hook: Any = None

    def install(self) -> None:
        """Begins to watch. Needs torch."""
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.utils.data import dataloader

        self._hook = register_module_forward_pre_hook(self._module_called)
        self._patches.around(torch.autograd, "backward", self._used)
        self._patches.around(dataloader._BaseDataLoaderIter, "__next__", self._used)

    def _module_called(self, _module: Any, _inputs: Any) -> None:
        self._found()

    _module_called._torchdynamo_disable = True  # type: ignore[attr-defined] # torch.compile must not trace into it

    def _used(self, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> None:
        self._found()

    def remove(self) -> None:
        """Watches no more; repeatable."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._patches.remove()
