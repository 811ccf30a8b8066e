"""Doing something when the program has imported a module, without importing it ourselves.

``stallscope record`` starts before the script. Importing torch for it would fix what the script may still want to set
(environment variables), so collectors wait until the script has done so itself.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class ImportWatch:
    """A finder that finds nothing of its own: it lets the others find, and calls back when the module is ready.

    Args:
        names: The modules to wait for.
        begins: Called with the name, on the importing thread, right before the module's code runs. Must not raise.
        imported: Called likewise right after it, also where it failed.
    """

    def __init__(self, names: set[str], begins: Callable[[str], None], imported: Callable[[str], None]) -> None:
        self._names = names
        self._begins = begins
        self._imported = imported
        self._looking: set[str] = set()

    def install(self) -> None:
        """Puts itself before the other finders."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Takes itself out again; repeatable."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with the callback behind its loader; None for all other modules."""
        if name not in self._names or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._call_back_after(spec, name)
        return spec

    def _call_back_after(self, spec: ModuleSpec, name: str) -> None:
        loader = spec.loader
        assert loader is not None
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with contextlib.suppress(AttributeError):
                del loader.exec_module
            self._begins(name)
            try:
                run(module)
            finally:
                self._imported(name)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:
            return  # a loader without room for it: its module is then only noticed at the next step
