"""Runs one workload once, recorded, in this process, and writes what the device says of it beside the recording.

    python -m stallscope.samples.stall_lab.run slow_loader --regime ahead --seed 1 --out FOLDER [--on NAME ...] [--off]

``FOLDER/recording`` is the recording, ``FOLDER/run.json`` the truth, ``FOLDER/*.py`` the script that ran.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .ranks import fork_ranks, join_group, leave_group
from .regimes import REGIMES, Regime, set_up_device
from .script import BATCH, WIDTH, Script, write_script
from .truth import truth
from .workload import Workload
from .workloads import WORKLOADS

WARM_STEPS = 4
"""Before the recording: what torch does once is in no step."""

LEAD_STEPS, TRAIL_STEPS = 4, 2
"""Recorded, not measured: the queue fills, and the last measured step needs one after it."""


def run(workload: Workload, regime: Regime, seed: int, on: frozenset[str], folder: Path) -> dict[str, Any] | None:
    """Trains, recorded into ``folder``.

    Returns:
        What ``run.json`` holds: the truth, the lines to blame, which ops fell back to the CPU, and how long the
        training thread was ready in the measured steps and had no core. In a process that the run made for one of its
        other ranks: None.
    """
    import torch

    from .. import simulated_accelerator as sim

    sim.load()
    script = write_script(workload, regime, seed, on, folder)
    rank, others = fork_ranks(workload.ranks)
    torch.set_num_threads(1)  # makes torch's thread pool anew in a copy, before threads of the device would
    torch.manual_seed(seed)
    if workload.ranks > 1:
        join_group(rank, workload.ranks, folder)
    set_up_device(sim, regime, random.Random(seed), BATCH * WIDTH, 2 * BATCH * WIDTH * WIDTH)
    sim.configure(**workload.settings)
    sys.path.insert(0, str(folder))
    module = importlib.import_module(script.module)
    train = getattr(module, script.train)
    state = getattr(module, script.state)(torch.device("sim"), folder)
    for injection in workload.injections:
        if injection.name in on:
            sim.configure(**injection.settings)
    train(state, WARM_STEPS, lambda: None)
    torch.accelerator.synchronize()
    sim.reset_engine_log()
    sim.reset_fallback_counts()
    ends, delays = _recorded(workload, regime, partial(train, state), folder / "recording")
    log = sim.engine_log()
    if workload.ranks > 1:
        leave_group(others)
    if rank:
        return None
    first, last = LEAD_STEPS - 1, LEAD_STEPS + workload.steps - 1
    measured = truth(log, ends[first], ends[last], workload.steps)
    result = _result(script, measured.as_dict(), sim.fallback_counts())
    return result | {"run_delay_ns": delays[last] - delays[first]}


def _recorded(
    workload: Workload, regime: Regime, train: Callable[[int, Callable[[], None]], None], path: Path
) -> tuple[list[int], list[int]]:
    """Trains while it is recorded; at the end of each step the time, and how long this thread had no core so far."""
    import torch

    import stallscope

    ends: list[int] = []
    delays: list[int] = []
    schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    label = f"{workload.name} {regime.name}"
    with stallscope.profile(path, label=label, detail=workload.detail, force=workload.ranks == 1) as prof:

        def end_of_step() -> None:
            prof.step()
            delays.append(int(os.pread(schedule, 100, 0).split()[1]))
            ends.append(time.time_ns())

        train(LEAD_STEPS + workload.steps + TRAIL_STEPS, end_of_step)
        # Where the host is far ahead the device is not done yet, and what ends the recording would disturb it.
        torch.accelerator.synchronize()
    return ends, delays


def _result(script: Script, measured: dict[str, int], fallbacks: dict[str, int]) -> dict[str, Any]:
    return {"truth": measured, "lines": script.lines, "synchronizing": script.synchronizing, "fallbacks": fallbacks}


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("--regime", choices=sorted(REGIMES), default="balanced")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", nargs="*", help="Which mistakes are in; all unless given.")
    parser.add_argument("--off", action="store_true", help="None is.")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    workload = WORKLOADS[chosen.workload]
    names = frozenset(injection.name for injection in workload.injections)
    on = frozenset() if chosen.off else names if chosen.on is None else frozenset(chosen.on)
    if on - names:
        parser.error(f"{workload.name} has {', '.join(sorted(names)) or 'no mistake'}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    result = run(workload, REGIMES[chosen.regime], chosen.seed, on, chosen.out.resolve())
    if result is not None:
        (chosen.out / "run.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
