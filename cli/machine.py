"""What this machine has: the checks of ``stallscope doctor``, each with what to do where something is missing."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from .check import Check
from .device_plugins import device_plugins

TORCH_TIMEOUT_S = 120
IMPORTER_GROUP = "stallscope.importers"

# Runs in a process of its own: importing torch can take seconds, gigabytes, or end in a crash of a driver's library.
_ASK_TORCH = """
import json, torch
found = {"version": torch.__version__, "cuda": torch.version.cuda, "hip": getattr(torch.version, "hip", None)}
private = torch._C._get_privateuse1_backend_name()
found["plug-in device"] = private if getattr(torch, private, None) else None
found["devices"] = []
for kind in ("cuda", "xpu", "mtia", "mps", private):
    module = getattr(torch, kind, None)
    try:
        available = bool(module and module.is_available())
        count = module.device_count() if available else 0
        names = [module.get_device_name(i) for i in range(count)] if hasattr(module, "get_device_name") else []
        if available:
            found["devices"].append({"type": kind, "count": count, "names": names})
    except Exception as error:
        found["devices"].append({"type": kind, "count": 0, "names": [], "error": f"{type(error).__name__}: {error}"})
found["activities"] = sorted(str(a).rpartition(".")[2] for a in torch.profiler.supported_activities())
print(json.dumps(found))
"""

# A collector says whether it can run once what it needs has been imported, so this is asked in that process, too.
_ASK_COLLECTORS = """
import importlib, json
from stallscope.profiler.session.registry import registered_collectors
found = []
for one in registered_collectors():
    reason, needs = one.reason, ()
    try:
        if one.collector is not None:
            needs = one.collector.needs
            for module in needs:
                importlib.import_module(module)
            reason = one.collector.available()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    found.append({"name": one.name, "origin": one.origin, "loads": one.collector is not None, "reason": reason})
print(json.dumps(found))
"""


def checks() -> Iterator[Check]:
    """Every check, in the order in which they are printed. Imports torch in a process of its own."""
    yield from _system()
    yield from _dependencies()
    yield from _reading()
    yield from _recording()
    yield _cache()


def _system() -> Iterator[Check]:
    yield Check("system", "stallscope", "ok", metadata.version("stallscope"))
    yield Check("system", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Check("system", "platform", "ok", f"{platform.platform()}, {os.cpu_count()} cores")


def _dependencies() -> Iterator[Check]:
    for requirement in metadata.requires("stallscope") or []:
        if "extra ==" in requirement:
            continue
        found = re.match(r"([A-Za-z0-9_.-]+)\s*(?:>=\s*([0-9.]+))?", requirement)
        assert found is not None  # the requirement was written by a packaging tool
        yield dependency(found[1], found[2] or "0")


def dependency(name: str, minimum: str) -> Check:
    """Whether a distribution is installed in the version we need."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check("dependencies", name, "failed", "not installed", f"pip install '{name}>={minimum}'")
    if _numbers(version) < _numbers(minimum):
        return Check("dependencies", name, "failed", f"{version}, older than {minimum}", f"pip install -U {name}")
    return Check("dependencies", name, "ok", f"{version} (needs {minimum})")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])


def _reading() -> Iterator[Check]:
    scanner = _module_found("stallscope.collectors.importers.scanner._native")
    yield compiled_part("reading", "native scanner", scanner, _compiler(), "the Python one reads traces, far slower")
    yield from _importers()


def compiled_part(section: str, name: str, built: bool, compiler: str | None, without: str) -> Check:
    """Whether a part that needs a compiler was built, what does its work otherwise, and how to get it."""
    if built:
        return Check(section, name, "ok", "built")
    hint = (
        f"A compiler is here ({compiler}): pip install --force-reinstall --no-deps stallscope"
        if compiler
        else "Install a C++17 compiler, then reinstall stallscope."
    )
    return Check(section, name, "note", f"not built: {without}", hint)


def _module_found(name: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _compiler() -> str | None:
    wanted = os.environ.get("CXX", "")
    return next((path for name in (wanted, "c++", "g++", "clang++") if name and (path := shutil.which(name))), None)


def _importers() -> Iterator[Check]:
    for entry in sorted(metadata.entry_points(group=IMPORTER_GROUP), key=lambda e: e.name):
        origin = entry.dist.name if entry.dist else "unknown package"
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - a third party's plug-in may fail in any way; the doctor says how
            why = f"does not load: {type(error).__name__}: {error}"
            yield Check("reading", f"reads {entry.name}", "note", why, f"Repair or remove the package {origin}.")
        else:
            yield Check("reading", f"reads {entry.name}", "ok", f"from {origin}")


def _recording() -> Iterator[Check]:
    yield Check("recording", "C++ compiler", "ok", _compiler() or "none")
    found, why_not = ask_torch()
    if found is None:
        yield Check("recording", "torch", "note", why_not, "Reading traces needs no torch; recording does.")
    else:
        yield from _torch(found)
    yield from _collectors()
    stacks = _module_found("stallscope.collectors.live._stacks_native")
    yield compiled_part("recording", "native stacks", stacks, _compiler(), "samples cost more and are rarer")


def _torch(found: dict[str, Any]) -> Iterator[Check]:
    build = f"cuda {found['cuda']}" if found["cuda"] else f"hip {found['hip']}" if found["hip"] else "CPU only"
    yield Check("recording", "torch", "ok", f"{found['version']} ({build})")
    for device in found["devices"]:
        yield _device(device)
    if not found["devices"]:
        yield Check("recording", "accelerator", "note", f"none that torch sees; its build is: {build}")
    yield from device_plugins(found["plug-in device"])
    yield Check("recording", "torch.profiler", "ok", f"can record: {', '.join(found['activities'])}")


def _collectors() -> Iterator[Check]:
    """Each collector: whether it can record here, and why not."""
    found, why_not = _asked(_ASK_COLLECTORS)
    if found is None:
        yield Check("recording", "collectors", "note", why_not)
        return
    for one in found:
        if one["reason"] is None:
            yield Check("recording", one["name"], "ok", f"can record (from {one['origin']})")
        elif one["loads"]:
            yield Check("recording", one["name"], "note", f"cannot record here: {one['reason']}")
        else:
            hint = f"Repair or remove the package {one['origin']}."
            yield Check("recording", one["name"], "note", f"does not load: {one['reason']}", hint)


def _device(device: dict[str, Any]) -> Check:
    if "error" in device:
        return Check("recording", device["type"], "note", f"asked for, and failed: {device['error']}")
    names = ", ".join(sorted(set(device["names"]))) or "unnamed"
    return Check("recording", device["type"], "ok", f"{device['count']} x {names}")


def ask_torch() -> tuple[dict[str, Any] | None, str]:
    """What torch says about itself, asked in a process of its own; None and the reason if there is no answer."""
    if not _module_found("torch"):
        return None, "not installed"
    return _asked(_ASK_TORCH)


def _asked(program: str) -> tuple[Any, str]:
    """What a program of ours prints as JSON on its last line, run by our own interpreter; None and the reason."""
    try:
        answer = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=TORCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"did not import within {TORCH_TIMEOUT_S} s"
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or [f"no message, exit status {answer.returncode}"])[-1]
        return None, f"does not import: {last}"
    return json.loads(answer.stdout.strip().splitlines()[-1]), ""


def _cache() -> Check:
    from ..profiler.recording.cache_folder import cache_folder
    from .rendering.numbers import plural, size

    folder = cache_folder()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    total = sum(path.stat().st_size for path in files)
    hint = f"Safe to delete: rm -r {folder}" if files else ""
    return Check(
        "cache", "imported traces", "ok", f"{size(total)} in {plural(len(files), 'file')} under {folder}", hint
    )
