"""The files that a process of ``stallscope coverage`` leaves in its folder, named for those who write and read them."""

from __future__ import annotations

TASK_FILE = "task.json"
"""What it was asked to do; written before it starts."""

REPORT_FILE = "report.json"
"""What it has found so far; replaced with each stage."""

ENDING_FILE = "ending.json"
"""How it ended, as its parent saw it."""

LOG_FILE = "output.txt"
"""What it printed, its stacks at a crash or at the time limit included."""

RECORDING_FOLDER = "recording"
"""The recording of some steps, or of the whole script."""

COMPILE_FOLDER = "compilations"
"""The recording of the compilations of all steps before."""
