"""What a recording says of where it was made: ranks, versions, host, source control, and the masked command line."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..recording.errors import UsageError
from ..recording.rank_status import process_start
from .secrets import allowed_environment, environment_secrets, masked_arguments

_GIT_TIMEOUT_S = 2.0
_VERSIONED = (
    "torch",
    "numpy",
    "triton",
    "torch_neuronx",
    "torch_tpu",
    "libtpu",
    "transformers",
    "lightning",
    "deepspeed",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where this process stands in its job.

    Attributes:
        rank: Its rank.
        local_rank: Its rank on this host.
        world_size: Ranks in the job.
        run_id: The same in every rank of the run and after a restart of one; None: this process is the whole run.
        attempt: Which start of the rank this is; None: not told, the next free one.
    """

    rank: int
    local_rank: int
    world_size: int
    run_id: str | None
    attempt: int | None


def place_in_job(variables: Mapping[str, str] | None = None) -> Place:
    """The ranks from the variables that torchrun (or whatever follows its names) sets; else those of torch.distributed.

    Raises:
        UsageError: RANK, LOCAL_RANK or WORLD_SIZE is not a number, or the rank is not below the world size.
    """
    env = os.environ if variables is None else variables
    if "RANK" not in env and variables is None:
        initialised = _initialised_group()
        if initialised is not None:
            return initialised
    rank, world = _number(env, "RANK", 0), _number(env, "WORLD_SIZE", 1)
    if rank >= world:
        raise UsageError(f"RANK is {rank} and WORLD_SIZE is {world}: a rank is below the world size.")
    run_id = _run_id(env) if world > 1 or "TORCHELASTIC_RUN_ID" in env else None
    return Place(rank, _number(env, "LOCAL_RANK", rank), world, run_id, None)


def _initialised_group() -> Place | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank, world = distributed.get_rank(), distributed.get_world_size()
    return Place(rank, _number(os.environ, "LOCAL_RANK", rank), world, _run_id(os.environ) if world > 1 else None, None)


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    if text == "":
        return default
    if not text.isdigit():
        raise UsageError(f"the environment variable {name} is {text!r}, expected a whole number.")
    return int(text)


def _run_id(env: Mapping[str, str]) -> str:
    """The same text in every rank of a job and in restarted ranks, another one in the next job.

    torchrun's id is "none" unless it was asked for one: then the process that started the ranks stands for the job
    where all ranks are on this host, and the address of rank 0 where they are not.
    """
    given = env.get("TORCHELASTIC_RUN_ID", "")
    if given not in ("", "none"):
        return given
    if "SLURM_JOB_ID" in env:
        return f"slurm {env['SLURM_JOB_ID']}.{env.get('SLURM_STEP_ID', '')}"
    if env.get("LOCAL_WORLD_SIZE", env.get("WORLD_SIZE")) == env.get("WORLD_SIZE"):
        return f"{socket.gethostname()} {os.getppid()} {process_start(os.getppid())}"
    return f"{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT', '')}"


def identity(arguments: list[str] | None = None) -> tuple[dict[str, Any], list[str]]:
    """What was run, where and with which versions; and the secrets that were masked in it.

    Args:
        arguments: The program's command line; ``sys.argv`` by default.
    """
    masked, secrets = masked_arguments(sys.argv if arguments is None else arguments)
    described = {
        "argv": masked,
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "environment": allowed_environment(os.environ),
    }
    return described, secrets + environment_secrets(os.environ)


def versions() -> dict[str, str]:
    """Versions of ourselves and of what is installed of the packages that matter, without importing any."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("stallscope", *_VERSIONED):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def source_control(folder: Path) -> dict[str, Any]:
    """Commit and dirty flag of the git checkout around the folder; empty where there is none, or git fails."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {}
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"git_commit": commit, "git_dirty": None if changed is None else bool(changed)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        ran = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None
