"""Running the user's program as if Python had been started on it: same ``__main__``, same path, same arguments.

The name of this file marks where the user's stacks begin: frames outside of ``run_program`` are not shown.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ..recording.errors import UsageError


def load_script(path: str, arguments: list[str]) -> tuple[CodeType, ModuleType]:
    """Prepares ``python path arguments``: sets ``sys.argv`` and ``sys.path[0]``, and makes the module ``__main__``.

    Raises:
        UsageError: There is no such file.
        SyntaxError: It is not Python.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "__main__.py"
    try:
        source = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", hint="Give the script's path.") from error
    sys.argv[:] = [path, *arguments]
    _first_on_path(file.resolve().parent)
    file = Path(os.path.abspath(file))  # noqa: PTH100 - as Python does it: links are not followed
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=str(file), __spec__=None, __package__=None, __cached__=None, __builtins__=__builtins__,
        __loader__=importlib.machinery.SourceFileLoader("__main__", str(file)),
    )  # fmt: skip
    return compile(source, str(file), "exec", dont_inherit=True), module


def load_module(name: str, arguments: list[str]) -> tuple[CodeType, ModuleType]:
    """Prepares ``python -m name arguments``.

    Raises:
        UsageError: There is no such module, or it is a package without ``__main__``.
    """
    _first_on_path(Path.cwd())
    sys.argv[:] = ["-m", *arguments]
    spec = _spec(name)
    code = spec.loader.get_code(spec.name) if spec.loader is not None else None
    if code is None:
        raise UsageError(f"the module {name} has no Python code to run.")
    sys.argv[0] = str(spec.origin)
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=spec.origin, __spec__=spec, __package__=spec.parent, __cached__=spec.cached, __loader__=spec.loader,
        __builtins__=__builtins__,
    )  # fmt: skip
    return code, module


def _first_on_path(folder: Path) -> None:
    """Puts the program's folder where Python would have put it, which under ``-P`` is nowhere."""
    if not sys.flags.safe_path:
        sys.path[0] = str(folder)


def _spec(name: str) -> Any:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError, AttributeError) as error:
        raise UsageError(f"the module {name} cannot be found: {error}.") from error
    if spec is None:
        raise UsageError(
            f"there is no module {name} that can be run.", hint="It is looked for from the current folder."
        )
    return spec


def run_program(code: CodeType, module: ModuleType) -> None:
    """Runs the program as ``__main__``; what it raises comes out as it is.

    The module stays ``__main__`` afterwards: threads and exit handlers of the program still look things up in it.
    """
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def without_our_frames(error: BaseException) -> BaseException:
    """The same exception with a traceback that begins in the user's program, as Python itself would print it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not run_program.__code__:
        trace = trace.tb_next
    return error.with_traceback(trace.tb_next if trace is not None else error.__traceback__)
