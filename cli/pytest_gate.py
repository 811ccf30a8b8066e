"""A gate around a block of a test: records it, and fails the test where a budget is broken."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..analysis.baselines import Baseline, baseline_of, baseline_text, read_baseline
from ..analysis.budgets import DEFAULTS, Budgets, OnUnknown, parse_budgets, parse_share
from ..analysis.gate import GateReport, gate
from ..analysis.gate_places import places
from ..analysis.gate_why import Side
from ..analysis.run_facts import RunMeasures
from ..analysis.run_measures import run_measures
from ..profiler.recording.reader import Recording, open_recording
from ..profiler.session.profile import profile
from .output import written_whole
from .rendering.gate_table import print_gate
from .rendering.gate_words import sentence
from .rendering.page import page

if TYPE_CHECKING:
    Entry = str | int | float | Mapping[str, object] | list[Mapping[str, str]]

FOLDER = "__stallscope__"
_UPDATED = pytest.StashKey[set[Path]]()
_UNSAFE = re.compile(r"[^\w.-]+")


class GateWarning(UserWarning):
    """It cannot be told whether a budget was kept."""


class GateOfTest:
    """What the fixture ``stallscope_gate`` is.

    Args:
        test_file: The test's file; baselines are kept in a folder beside it.
        scratch: Where recordings go.
        config: pytest's.
    """

    def __init__(self, test_file: Path, scratch: Path, config: pytest.Config) -> None:
        self._test_file, self._scratch, self._config = test_file, scratch, config
        self._count = 0

    @contextmanager
    def __call__(
        self,
        name: str,
        *,
        run_sd: str | float | None = None,
        on_unknown: OnUnknown = "warn",
        detail: str | None = None,
        **budgets: Entry,
    ) -> Iterator[profile]:
        """Records the block and holds it against the baseline of this name.

        With ``--stallscope-update`` it becomes the baseline; a name that is used several times in a session keeps all
        of those runs, and five of them show how much runs differ.

        Args:
            name: The baseline's name, unique in the test's file.
            run_sd: How much the same code differs from run to run, where the baseline has too few runs to show it.
            on_unknown: What a test does where it cannot be told: warn, or fail.
            detail: How much to record, as in ``stallscope.profile``.
            **budgets: As in stallscope.toml; by default those of ``stallscope gate``.

        Raises:
            UsageError: There is no such budget, or its amount cannot be one.
        """
        wanted = parse_budgets(
            budgets or DEFAULTS, on_unknown=on_unknown, run_sd_frac=None if run_sd is None else parse_share(run_sd)
        )
        self._count += 1
        folder = self._scratch / f"stallscope-{self._count}"
        with profile(folder, label=name, detail=detail) as recording:
            yield recording
        self._judge(self.baseline_file(name), open_recording(folder), wanted)

    def baseline_file(self, name: str) -> Path:
        """Where the baseline of a name is kept."""
        return self._test_file.parent / FOLDER / f"{self._test_file.stem}.{_UNSAFE.sub('_', name)}.json"

    def _judge(self, file: Path, recording: Recording, budgets: Budgets) -> None:
        measures = run_measures(recording)
        update = self._config.getoption("--stallscope-update")
        if update:
            self._keep(file, recording, measures, add=update == "add")
            return
        base = self._baseline(file, budgets)
        new = Side((measures,), ())

        def sides() -> tuple[Side, Side]:
            return Side(new.runs, places(recording, measures)), Side(base.runs, base.places)

        report = gate(budgets, new.runs, base.runs, sides=sides)
        if report.verdict != "kept":
            pytest.fail(_text(report), pytrace=False)
        for outcome in report.outcomes:
            if outcome.matter == "warns":
                text = f"{sentence(outcome)}: cannot tell. {outcome.judgement.reason}"
                warnings.warn(GateWarning(text), stacklevel=4)

    def _baseline(self, file: Path, budgets: Budgets) -> Baseline:
        """The kept baseline; an empty one where no budget takes it. Without one the test fails."""
        if file.exists():
            return read_baseline(file)
        if any(budget.value is None for budget in budgets.budgets):
            pytest.fail(
                f"no baseline at {file}. Run pytest --stallscope-update where the code is good, and commit the file.",
                pytrace=False,
            )
        return baseline_of((), ())

    def _keep(self, file: Path, recording: Recording, measures: RunMeasures, *, add: bool) -> None:
        """Makes the run the baseline, or one of its runs: when adding, and when this session began it."""
        updated = self._config.stash.setdefault(_UPDATED, set())
        before = read_baseline(file).runs if file.exists() and (add or file in updated) else ()
        updated.add(file)
        file.parent.mkdir(exist_ok=True)
        with written_whole(file) as temporary:
            text = baseline_text(baseline_of((*before, measures), places(recording, measures)))
            temporary.write_text(text, encoding="utf-8")


def _text(report: GateReport) -> str:
    """The report as in the terminal."""
    stream = io.StringIO()
    print_gate(page(stream), report)
    return stream.getvalue()
