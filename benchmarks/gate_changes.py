"""Whether the gate catches what makes a training run worse, and names the line: four edits of a real script, for real.

    python benchmarks/gate_changes.py [--runs 5] [--same 3] [--folder FOLDER]

samples/gated_training.py is recorded several times on the simulated accelerator, and a baseline file is made of that.
Then it is recorded again as it is, and with each of four edits: an op that the device cannot run, a shape that differs
from step to step, a slower loader, and more memory. ``stallscope gate`` holds each against the baseline. Shown are the
exit codes and the first three lines of the reports; the exit code is 1 if one is not as it should be.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stallscope.samples import simulated_accelerator

SCRIPT = Path(__file__).resolve().parents[1] / "samples" / "gated_training.py"

# What is exact fails; times only warn where the machine is too busy for them to be told.
BUDGETS = """\
[budgets]
step_time = { margin = "25%", on_unknown = "warn" }
peak_memory = "+5%"
recompiles = "+0"
fallbacks = "baseline"
stall_share = { input = { margin = "10%", on_unknown = "warn" } }
"""


@dataclass(frozen=True)
class Change:
    """One edit of the script.

    Attributes:
        name: What it is.
        old: A line of the script, without its indentation.
        new: The lines in its place.
        blamed: Which of those the gate must name.
        word: What the first line of the report must say.
    """

    name: str
    old: str
    new: tuple[str, ...]
    blamed: str
    word: str

    def edited(self, text: str) -> str:
        """The script with the edit.

        Raises:
            ValueError: The line does not stand in the script exactly once.
        """
        lines = text.splitlines()
        [at] = [number for number, line in enumerate(lines) if line.strip() == self.old]
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        return "\n".join([*lines[:at], *(indent + line for line in self.new), *lines[at + 1 :]]) + "\n"

    def line(self, text: str) -> int:
        """The number of the blamed line in the edited script."""
        [at] = [n for n, line in enumerate(self.edited(text).splitlines(), 1) if line.strip() == self.blamed]
        return at


def _change(name: str, old: str, *new: str, blamed: int, word: str) -> Change:
    return Change(name, old, new, new[blamed], word)


SEEDED = "generator = torch.Generator().manual_seed(index)"
POOLED = "pooled = x.mean(dim=1)"
CHANGES = (
    _change(
        "an op falls back to the CPU", POOLED, "x = torch.nan_to_num(x)", POOLED, blamed=0, word="aten::nan_to_num"
    ),
    _change(
        "shapes differ from step to step", POOLED,
        "length = int(torch.randint(8, LENGTH, ()))", "pooled = x[:, :length].mean(dim=1)",
        blamed=1, word="recompilations",
    ),
    _change(
        "a slower loader", SEEDED, "import time", "time.sleep(0.1)  # as from a slow disk", SEEDED,
        blamed=1, word="step time",
    ),
    _change(
        "30 % more memory", POOLED, "x = torch.cat([x] * 10, dim=1)", POOLED,
        blamed=0, word="peak device memory",
    ),
)  # fmt: skip


def write_version(folder: Path, text: str) -> None:
    """A folder with one version of the script, as ``train.py``, and the budgets."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(text, encoding="utf-8")
    (folder / "stallscope.toml").write_text(BUDGETS, encoding="utf-8")


def record(folder: Path, run: str) -> None:
    """Records the script in a folder.

    Raises:
        subprocess.CalledProcessError: The script failed.
    """
    _stallscope(folder, "record", "--quiet", "-o", run, "train.py").check_returncode()


def gated(folder: Path, baseline: Path, *options: str) -> tuple[int, list[str]]:
    """The exit code of the gate on the runs of a folder, and the lines of its report."""
    done = _stallscope(folder, "gate", "run*", "--baseline", str(baseline), *options)
    return done.returncode, (done.stdout or done.stderr).splitlines()


def _stallscope(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stallscope.cli", *arguments], cwd=folder, capture_output=True, text=True
    )


def wrong(change: Change | None, code: int, lines: list[str]) -> str:
    """What is not as it should be in a report; "" if nothing is.

    Args:
        change: The edit; None for the script as it is.
        code: The gate's exit code.
        lines: Its report.
    """
    if change is None:
        return "" if code == 0 else f"exit {code}, expected 0"
    where = f"train.py:{change.line(SCRIPT.read_text(encoding='utf-8'))} "
    if code != 1:
        return f"exit {code}, expected 1"
    if change.word not in lines[0]:
        return f"the first line does not say {change.word!r}"
    return "" if where in f"{lines[2]} " else f"the third line does not name {where}"


def main() -> int:
    """Records all versions, gates them, and prints what the gate says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of the baseline")
    parser.add_argument("--same", type=int, default=3, help="further runs of the same code, gated one by one")
    parser.add_argument("--folder", type=Path, help="where to keep scripts and recordings")
    options = parser.parse_args()
    if reason := simulated_accelerator.unavailable_reason():
        print(f"This needs the simulated accelerator: {reason}")
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        return show(options.folder or Path(temporary), options.runs, options.same)


def show(folder: Path, runs: int, same: int) -> int:
    """Prints what the gate says of each version; 1 if a report is not as it should be."""
    text = SCRIPT.read_text(encoding="utf-8")
    write_version(folder / "baseline", text)
    for number in range(runs):
        record(folder / "baseline", f"run{number}")
    baseline = folder / "baseline.json"
    _stallscope(folder, "gate", "baseline/run*", "--write-baseline", str(baseline)).check_returncode()
    print(f"The baseline: {runs} runs of {SCRIPT.name}, {baseline.stat().st_size / 1024:.0f} KiB.")
    failed = 0
    versions: list[tuple[str, Change | None]] = [(f"no change, run {n + 1}", None) for n in range(same)]
    for number, (name, change) in enumerate([*versions, *((one.name, one) for one in CHANGES)]):
        here = folder / f"version{number}"
        write_version(here, text if change is None else change.edited(text))
        record(here, "run")
        code, lines = gated(here, baseline)
        problem = wrong(change, code, lines)
        failed += bool(problem)
        print(f"\n{name}: exit {code}{f'  NOT AS EXPECTED: {problem}' if problem else ''}")
        print("\n".join(f"    {line}" for line in lines[:3]))
    print(f"\n{'All reports are' if not failed else f'{failed} reports are not'} as they should be.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
