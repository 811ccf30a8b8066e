"""How well the causes and lines of stalls fit what stalls really come from, measured on the stall lab.

    python benchmarks/attribution.py [--quick] [--seeds 11 12] [--repeats 3] [--only NAME ...] [--regimes NAME ...]

Every mistake of ``stallscope.samples.stall_lab`` is switched on and off, interleaved, each run in a process of its own.
The truth is the difference in time without a kernel by the simulated accelerator's own engine log; a cell whose truth
is less than three times its spread over the repeats is shown and not scored. Two simpler methods stand beside ours
(``simple_attribution.py``). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from attribution_scores import (
    MOST_GAIN_OFF,
    SEVERAL_WAITS,
    Cell,
    Evaluation,
    Key,
    Place,
    at_lines,
    by_cause,
    cell_of,
    confusion,
    is_disturbed,
    line_map,
    totals,
)
from simple_attribution import priority_sweep, run_slices, stream_gaps

import stallscope
from stallscope.analysis.causes import CAUSE_NAMES
from stallscope.analysis.device_activity import DeviceActivity, rank_activity
from stallscope.analysis.exposed_communication import communication_lines, communication_pieces, peer_reasons
from stallscope.analysis.finding_candidates import Candidate
from stallscope.analysis.findings import finding_candidates, findings
from stallscope.analysis.same_steps import of_steps
from stallscope.analysis.stall_claims import claims
from stallscope.analysis.stall_lines import stall_lines
from stallscope.analysis.stalls import stalls_of_device
from stallscope.profiler.recording.reader import Recording
from stallscope.samples.stall_lab import WORKLOADS, Workload
from stallscope.samples.stall_lab.run import LEAD_STEPS, TRAIL_STEPS
from stallscope.samples.stall_lab.server import RunError, Runner, runner

METHODS = ("ours", "priority_sweep", "stream_gaps")
QUICK = (
    "slow_loader", "fallback_forward", "item_middle", "python_loop", "checkpoint", "interpreter_held", "slow_rank",
    "clean",
)  # fmt: skip
EXTRA_REPEATS, QUICK_EXTRA_REPEATS = 3, 1
"""So many times more a job is repeated where other work on the machine disturbed its runs."""

# What a finding of a cause is called.
_KINDS = {"dispatch": ("launch_bound",), "launch": ("launch_bound",), "copy": ("copy", "pageable_copy", "awaited_copy")}


@dataclass(frozen=True)
class Job:
    """One workload in one regime with one seed."""

    workload: Workload
    regime: str
    seed: int

    def variants(self) -> dict[str, frozenset[str]]:
        """What is switched on in the runs: everything, and everything but one."""
        every = frozenset(injection.name for injection in self.workload.injections)
        return {"": every} | {name: every - {name} for name in sorted(every)}


def evaluated(folder: Path, run: dict[str, Any]) -> Evaluation:
    """What the device and each method say of one run."""
    recording = stallscope.open_recording(folder / "recording")
    start, end, steps = (run["truth"][name] for name in ("start_ns", "end_ns", "steps"))
    files = frozenset(path.name for path in folder.glob("*.py"))
    ours, total, profiler = named_causes(recording, start, end)
    said: dict[str, dict[Key, float]] = {"ours": ours}
    slices = run_slices(recording, start, end, files)
    for name, method in (("priority_sweep", priority_sweep), ("stream_gaps", stream_gaps)):
        said[name] = {(*key, None): value for key, value in method(slices).items()}
    promises, shown = promises_of(recording, steps)
    return Evaluation(
        (run["truth"]["idle_ns"] - profiler) / steps,
        (end - start) / steps,
        {name: {key: value / steps for key, value in sums.items()} for name, sums in said.items()},
        abs(total - run["truth"]["idle_ns"]),
        promises,
        shown,
        run["run_delay_ns"],
    )


def promises_of(recording: Recording, steps: int) -> tuple[dict[Place, float], list[str]]:
    """What is promised, and what is shown of it, about what the truth is: the measured steps and, of two ranks, one."""
    measured_steps = of_steps(recording, frozenset(range(LEAD_STEPS, LEAD_STEPS + steps)))
    promises: dict[Place, float] = {}
    for candidate in finding_candidates(measured_steps, ranks=(0,)):
        file = candidate.file.rsplit("/", 1)[-1] if candidate.file is not None else None
        place = (candidate.kind, file, candidate.line)
        promises[place] = promises.get(place, 0.0) + per_step(candidate, steps)
    shown = findings(measured_steps, ranks=(0,)).findings
    return promises, [f"{finding.kind} {finding.file}:{finding.line}" for finding in shown]


def named_causes(recording: Recording, start: int, end: int) -> tuple[dict[Key, float], int, int]:
    """Stalls, exposed copies and communication by root cause, second cause and lines; their sum; the profiler's part.

    The profiler's pauses (ending and beginning a segment) are in no sum by cause: without the mistake a run records
    less and has fewer of them, but they are no cost of the mistake.
    """
    [device] = rank_activity(recording, 0).devices
    rows = stalls_of_device(recording, 0, device, window=(start, end))
    both, second = claims(rows)
    places, line, _ = stall_lines(recording, 0, both)
    named: list[Place] = [
        (CAUSE_NAMES[cause], *((places[at].file.rsplit("/", 1)[-1], places[at].line) if at >= 0 else (None, None)))
        for cause, at in zip(both.root.tolist(), line.tolist(), strict=True)
    ]
    others = iter(np.flatnonzero(second).tolist())
    sums: dict[Key, float] = {}
    profiler = 0
    columns = (column.tolist() for column in (rows.co_cause, rows.co_tied, rows.dur))
    for place, co_cause, tied, dur in zip(named[: len(rows)], *columns, strict=True):
        other = named[next(others)] if co_cause >= 0 else None
        if other and tied:
            other = (SEVERAL_WAITS, other[1], other[2])
        if place[0] == "overhead":
            profiler += dur
        else:
            sums[(*place, other)] = sums.get((*place, other), 0) + dur
    exposed = communication(recording, device, start, end)
    total = int(rows.dur.sum()) + sum(exposed.values())
    return sums | {(*place, None): dur for place, dur in exposed.items()}, total, profiler


def communication(recording: Recording, device: DeviceActivity, start: int, end: int) -> dict[Place, int]:
    """Communication that nothing hides, by line: waiting at what held the other rank up, the rest where it was called.

    A stall can have the cause ``wait_for_peer`` only where no device communicates, so that no sum is counted twice.
    """
    pieces = communication_pieces(recording, device, np.array([[start, end]]))
    lines = communication_lines(recording, device, pieces)
    reasons = peer_reasons(recording, device.rank, pieces)
    sums: dict[Place, int] = {}
    for peer, own, reason, dur in zip(pieces.peer.tolist(), lines, reasons, pieces.dur.tolist(), strict=True):
        placed = own if peer < 0 or reason is None else reason[1]
        file, line = (placed[0].file.rsplit("/", 1)[-1], placed[0].line) if placed is not None else (None, None)
        place = ("communication" if peer < 0 else "wait_for_peer", file, line)
        sums[place] = sums.get(place, 0) + dur
    return sums


def per_step(candidate: Candidate, steps: int) -> float:
    """What it would give back, per step; one about the whole recording is spread over all of its steps."""
    return candidate.dur_ns / (candidate.scope.steps or steps + LEAD_STEPS + TRAIL_STEPS)


def measured(
    job: Job, repeats: int, lab: Runner, folder: Path, *, keep: bool = False, extra: int = EXTRA_REPEATS
) -> tuple[list[Cell], list[Evaluation]]:
    """The cells of a job, and the evaluations of its runs with everything on.

    With ``keep`` runs stay in the folder, and those that it has already are evaluated again, not run.
    """
    variants = job.variants()
    runs: dict[str, list[Evaluation]] = {name: [] for name in variants}
    lines: dict[str, list[tuple[str, int]]] = {}
    for repeat in range(repeats + extra):
        # Every other repeat runs backwards, so that a drift of the machine does not look like a mistake.
        made: dict[str, Evaluation] = {}
        scripts: dict[str, dict[str, str]] = {}
        for name in list(variants)[:: 1 if repeat % 2 == 0 else -1]:
            place = folder / f"{job.workload.name}_{job.regime}_{job.seed}_{name or 'on'}_{repeat}"
            arguments = [job.workload.name, "--regime", job.regime, "--seed", str(job.seed)]
            if keep and (place / "run.json").exists():
                run = json.loads((place / "run.json").read_text())
            else:
                run = lab.run([*arguments, "--on", *sorted(variants[name])], place)
            lines = lines if name else run["lines"]  # without another mistake the script has them in other places
            made[name] = evaluated(place, run)
            scripts[name] = {path.name: path.read_text() for path in place.glob("*.py")}
            if not keep:
                shutil.rmtree(place / "recording")
        if not any(is_disturbed(one, job.workload.steps) for one in made.values()):
            for name, one in made.items():
                runs[name].append(at_lines(one, line_map(scripts[name], scripts[""])))
        if len(runs[""]) == repeats:
            break
    if not runs[""]:
        raise RunError(f"{job.workload.name} {job.regime} {job.seed}: the machine is too busy for a run to count")
    cells = []
    for injection in job.workload.injections:
        names = (job.workload.name, injection.name, job.regime, job.seed)
        to_blame = {(file, line) for file, line in lines[injection.name]}
        kinds = tuple(kind for cause in injection.causes for kind in _KINDS.get(cause, (cause,)))
        if "synchronization" in injection.causes and len(to_blame) > 1 and job.regime != "sync":
            kinds += (SEVERAL_WAITS,)  # all waits of the script go at once
        cells.append(cell_of(names, injection.causes, kinds, to_blame, runs[""], runs[injection.name]))
    return cells, runs[""]


def jobs(chosen: argparse.Namespace) -> Iterator[Job]:
    """All of them, in order."""
    names = chosen.only or (QUICK if chosen.quick else list(WORKLOADS))
    regimes = chosen.regimes or (["balanced"] if chosen.quick else ["ahead", "balanced", "sync"])
    for seed in chosen.seeds:
        for name in names:
            workload = WORKLOADS[name]
            fitting = [regime for regime in regimes if regime in workload.regimes]
            for regime in fitting or workload.regimes[: 1 if chosen.quick else None]:
                yield Job(workload, regime, seed)


def row_of(cell: Cell) -> dict[str, Any]:
    """One cell for the JSON line; times in ms per step."""
    scores = {}
    for method in METHODS:
        one = cell.scores[method]
        scores[method] = {
            "right_frac": _share(one.right_ns, cell), "line_frac": _share(one.line_ns, cell),
            "wrong_frac": _share(one.wrong_ns + one.over_ns, cell),
            "right_or_second_frac": _share(one.either_ns, cell),
            "line_or_second_frac": _share(one.either_line_ns, cell),
            "rises_ms": {cause: _ms(value) for cause, value in one.rises.items() if abs(value) > 20_000},
        }  # fmt: skip
    return {
        "workload": cell.workload, "injection": cell.injection, "regime": cell.regime, "seed": cell.seed,
        "causes": list(cell.causes), "truth_ms": _ms(cell.truth_ns),
        "noise_ms": _ms(cell.noise_ns) if math.isfinite(cell.noise_ns) else None,
        "gain_ms": _ms(cell.gain_ns), "moved_ms": _ms(cell.moved_ns), "predicted_ms": _ms(cell.predicted_ns),
        "gain_noise_ms": _ms(cell.gain_noise_ns) if math.isfinite(cell.gain_noise_ns) else None,
        "gain_scored": cell.gain_scored,
        "scored": cell.scored, "sum_off_ns": cell.sum_off_ns, **scores,
    }  # fmt: skip


def _ms(value: float) -> float:
    return round(value / 1e6, 3)


def _share(value: float, cell: Cell) -> float | None:
    return round(value / cell.truth_ns, 3) if cell.truth_ns > 0 else None


def text_of(cell: Cell) -> str:
    """One cell as a line of the table."""
    row = row_of(cell)
    name = f"{cell.workload}/{cell.injection}"
    head = f"| {name:32} | {cell.regime:8} | {cell.seed} | {row['truth_ms']:8.2f} | {cell.noise_ns / 1e6:6.2f} |"
    if not cell.scored:
        return f"{head} not scored |"
    shares = [row["ours"][key] for key in ("right_frac", "right_or_second_frac", "line_or_second_frac", "wrong_frac")]
    shares += [row[method]["right_frac"] for method in METHODS[1:]]
    wrong = sorted(((v, c) for c, v in row["ours"]["rises_ms"].items() if c not in cell.causes and v > 0), reverse=True)
    note = ", ".join(f"{cause} {value:.2f}" for value, cause in wrong[:3])
    gain = f"{row['predicted_ms'] / row['gain_ms']:.2f}" if row["gain_ms"] > 0 else ""
    gain = gain if cell.gain_scored else f"({gain})"
    return head + "".join(f" {share:5.2f} |" for share in shares) + f" {gain} | {note} |"


HEADER = (
    "| workload/mistake | regime | seed | truth ms | noise ms | ours: cause | or second | line | wrong "
    "| sweep: cause | gaps: cause | gain | wrong is |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def summary_lines(cells: list[Cell]) -> Iterator[str]:
    """What follows the table of cells: totals by method, by cause, and our confusion matrix."""
    yield "\n| method | cause | or second | line | precision | with second | mean of cells: cause | or second | line |"
    yield "|---" * 9 + "|"
    keys = (
        "right_cause_frac", "right_or_second_cause_frac", "right_or_second_line_frac", "precision_frac",
        "precision_with_second_frac", "mean_cell_right_frac", "mean_cell_right_or_second_frac", "mean_cell_line_frac",
    )  # fmt: skip
    for method in METHODS:
        total = totals(cells, method)
        yield f"| {method} | " + " | ".join(str(total[key]) for key in keys) + " |"
    yield "\n| true cause | cells | cause | or second | line | precision |\n|---|---|---|---|---|---|"
    for cause, total in by_cause(cells, "ours").items():
        shares = " | ".join(str(total[key]) for key in keys[:4])
        yield f"| {cause} | {total['cells']} | {shares} |"
    right, scored = (totals(cells, "ours")[key] for key in ("gain_right", "gain_cells"))
    yield f"\ngain within {MOST_GAIN_OFF:.0%} in {right} of {scored} (in brackets: not clear of its noise, not counted)"
    matrix = confusion(cells, "ours")
    said = sorted({cause for row in matrix.values() for cause, value in row.items() if abs(value) > 50_000})
    yield "\nms per step, true cause down, our cause across:\n\n| | " + " | ".join(said) + " |"
    yield "|---" * (len(said) + 1) + "|"
    for cause, row in matrix.items():
        yield f"| {cause} | " + " | ".join(f"{row.get(name, 0) / 1e6:.2f}" for name in said) + " |"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="A few workloads, one regime, two repeats.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11])
    parser.add_argument("--repeats", type=int, help="3 unless --quick; disturbed ones are repeated.")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="Keep all runs there, and run none again.")
    parser.add_argument("--only", nargs="+", choices=sorted(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--regimes", nargs="+", choices=["ahead", "balanced", "sync"])
    parser.add_argument("--json", action="store_true", help="Nothing but the JSON line.")
    chosen = parser.parse_args()

    def show(text: str) -> None:
        if not chosen.json:
            print(text, flush=True)

    began = time.perf_counter()
    cells: list[Cell] = []
    clean: list[dict[str, Any]] = []
    failed: list[str] = []
    show(HEADER)
    with tempfile.TemporaryDirectory(prefix="stall_lab_") as temporary, runner() as lab:
        folder = chosen.keep or Path(temporary)
        for job in jobs(chosen):
            try:
                repeats = chosen.repeats or (2 if chosen.quick else 3)
                extra = QUICK_EXTRA_REPEATS if chosen.quick else EXTRA_REPEATS
                found, runs = measured(job, repeats, lab, folder, keep=chosen.keep is not None, extra=extra)
            except RunError as error:
                failed.append(f"{job.workload.name} {job.regime} {job.seed}")
                print(error, file=sys.stderr)
                continue
            cells += found
            for cell in found:
                show(text_of(cell))
            if not job.workload.injections:
                said = sorted({text for run in runs for text in run.findings})
                idle = round(max(run.idle_ns for run in runs) / 1e6, 3)
                names = {"workload": job.workload.name, "regime": job.regime, "seed": job.seed}
                clean.append(names | {"idle_ms": idle, "findings": said})
                text = f"at most {idle:.2f} ms idle; findings: {', '.join(said) or 'none'}"
                show(f"| {job.workload.name:32} | {job.regime:8} | {job.seed} | {text} |")
    for line in summary_lines(cells):
        show(line)
    show(f"\nrows less engine log, at most: {max((cell.sum_off_ns for cell in cells), default=0)} ns in a run")
    show(f"{time.perf_counter() - began:.0f} s; failed: {failed or 'none'}\n")
    result = {
        "total": totals(cells, "ours"), "priority_sweep": totals(cells, "priority_sweep"),
        "stream_gaps": totals(cells, "stream_gaps"), "by_cause": by_cause(cells, "ours"), "clean": clean,
        "failed": failed, "cells": [row_of(cell) for cell in cells],
    }  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main()
