"""One thing that ``stallscope doctor`` looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        section: What it belongs to: system, dependencies, reading, recording, cache.
        name: What was looked at.
        state: ok, note (works, but there is something to know), or failed (stallscope does not work without it).
        found: What was found, in words.
        hint: What to do about it; empty where there is nothing to do.
    """

    section: str
    name: str
    state: str
    found: str
    hint: str = ""

    def to_dict(self) -> dict[str, str]:
        """The check as a row of JSON."""
        return asdict(self)
