"""``python -m stallscope.cli``: the same as ``stallscope``."""

from __future__ import annotations

from .main import main

main(prog_name="stallscope")
