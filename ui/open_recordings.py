"""The recordings that are shown. One that is still written is opened again when somebody asks for what is new in it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..analysis.recording_facts import RecordingFacts, recording_facts
from ..profiler.recording.layout import is_recording
from ..profiler.recording.reader import Recording, open_recording
from .served import Served
from .snapshot import Stamp, keep, snapshot, written_so_far

KEPT_STATES = 3
"""In how many states a recording that grows stays open: a page that was loaded before goes on with its own."""

_ASK_AGAIN_NS = 900_000_000
"""What was found in the folder holds this long, however many pages ask."""


@dataclass(frozen=True, slots=True)
class News:
    """What became of a recording since it was opened.

    Attributes:
        statuses: How many ranks have each status; empty before the first rank has begun.
        there: Whether the folder still holds it.
        heartbeat_ns: When the running rank that is silent for longest last gave a sign, ns since 1970; None: no such.
        grew: Whether it holds more than what is shown; always when it has ended since.
        facts: As it is now.
    """

    statuses: dict[str, int]
    there: bool
    heartbeat_ns: int | None
    grew: bool
    facts: RecordingFacts

    @property
    def running(self) -> bool:
        """Whether any rank still writes, or is yet to begin."""
        return self.there and _may_grow(self.statuses)


class Source:
    """A recording under its label, in every state that it was opened in.

    Attributes:
        path: Its folder.
        label: What people call it.
        name: The key of the state that was opened first.
        states: What is open, the earliest first.
        retired: The keys of states that no longer are.

    Args:
        recording: The recording as it was opened.
        label: What people call it.
        beside: All that are shown, by key.
    """

    def __init__(self, recording: Recording, label: str, beside: Mapping[str, Served]) -> None:
        self.path: Path = recording.path
        self.label = label
        self.retired: set[str] = set()
        self._beside = beside
        self._lock = threading.RLock()
        self._stamp: Stamp | None = None
        self._told: tuple[int, Stamp, RecordingFacts] | None = None
        self._found: tuple[int, bool] | None = None
        self.name = ""
        self.states: list[Served] = [self._opened(recording)]
        self.name = self.latest.family = self.latest.key

    @property
    def latest(self) -> Served:
        """The state that was opened last."""
        return self.states[-1]

    @property
    def grows(self) -> bool:
        """Whether the latest state is one of a recording that was running then."""
        return self._stamp is not None

    @property
    def gone(self) -> bool:
        """Whether its folder was removed or emptied, or another run was recorded into it."""
        now = time.monotonic_ns()
        if self._found is None or now - self._found[0] >= _ASK_AGAIN_NS:
            run = self.states[0].recording.info.get("run_id")
            other = run is not None and Recording(self.path).info.get("run_id") != run
            self._found = now, other or not is_recording(self.path)
        return self._found[1]

    @property
    def readable(self) -> bool:
        """Whether its rows are still there: what was opened while it was written has links of its own."""
        return self.grows or not self.gone

    def news(self) -> News | None:
        """What is new in the folder; None where it had ended when it was last opened."""
        with self._lock:
            if not self.grows:
                return None
            for state in self.states:
                keep(state.recording)
            statuses, beat = _statuses(self.path)
            stamp, facts = self._looked_up()
            there = not self.gone
            grew = there and (stamp != self._stamp or not _may_grow(statuses))
            return News(statuses, there, beat, grew, facts)

    def advance(self) -> Served:
        """Opens it as it is now, where anything is new, and returns the latest state."""
        with self._lock:
            news = self.news()
            if news is None or not news.grew:
                return self.latest
            recording = Recording(self.path) if news.running else open_recording(self.path)
            newer = self._opened(recording)
            if newer.key in [state.key for state in self.states]:
                return self.latest
            self.states.append(newer)
            self.retired |= {state.key for state in self.states[:-KEPT_STATES]}
            del self.states[:-KEPT_STATES]
            return newer

    def _opened(self, recording: Recording) -> Served:
        self._stamp, apart = None, ""
        if _may_grow(_statuses(self.path)[0]):
            apart = str(self.path.resolve())
            self._stamp = written_so_far(self.path)
            recording = snapshot(self.path)
        return Served(recording, self.label, beside=self._beside, family=self.name, apart=apart)

    def _looked_up(self) -> tuple[Stamp, RecordingFacts]:
        now = time.monotonic_ns()
        if self._told is not None and now - self._told[0] < _ASK_AGAIN_NS:
            return self._told[1:]
        stamp = written_so_far(self.path)
        known = self._told is not None and self._told[1] == stamp
        facts = self._told[2] if self._told is not None and known else recording_facts(Recording(self.path))
        self._told = (now, stamp, facts)
        return stamp, facts


class OpenRecordings(Mapping[str, Served]):
    """The recordings by their keys: iteration gives the latest state of each, a key also an earlier one.

    Args:
        recordings: With their labels; one that is there twice is shown once.
        newcomers: Gives those that came since it was asked last; None where none can come.
    """

    def __init__(
        self,
        recordings: Sequence[tuple[Recording, str]],
        newcomers: Callable[[], Sequence[tuple[Recording, str]]] | None = None,
    ) -> None:
        self._sources: list[Source] = []
        self._newcomers = newcomers
        self._looked_ns = time.monotonic_ns()
        self._lock = threading.Lock()
        self._add(recordings)

    def _add(self, recordings: Sequence[tuple[Recording, str]]) -> None:
        for recording, label in recordings:
            source = Source(recording, label, self)
            if source.name not in self:
                self._sources.append(source)

    @property
    def may_come(self) -> bool:
        """Whether recordings may come that are not shown yet."""
        return self._newcomers is not None

    def look(self) -> None:
        """Adds the recordings that came since; however many pages ask, the folders are looked through once a second."""
        with self._lock:
            now = time.monotonic_ns()
            if self._newcomers is None or now - self._looked_ns < _ASK_AGAIN_NS:
                return
            self._add(self._newcomers())
            self._looked_ns = time.monotonic_ns()

    def __getitem__(self, key: str) -> Served:
        for source in self._sources:
            for state in source.states:
                if state.key == key:
                    return state
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(state.key == key for source in self._sources for state in source.states)

    def __iter__(self) -> Iterator[str]:
        return iter([source.latest.key for source in self.sources])

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The recordings, whatever their states, without those whose rows are no longer there."""
        return tuple(source for source in list(self._sources) if source.readable)

    def source(self, key: str | None) -> Source:
        """The recording that a key of any of its states means; the first where it means none."""
        for source in self._sources:
            if key in source.retired or any(state.key == key for state in source.states):
                return source
        return (self.sources or tuple(self._sources))[0]

    def shown(self, key: str | None) -> Served:
        """The state that a key means; the latest of the first recording where it means none."""
        source = self.source(key)
        return next((state for state in source.states if state.key == key), source.latest)


def _may_grow(statuses: Mapping[str, int]) -> bool:
    return not statuses or "running" in statuses


def _statuses(path: Path) -> tuple[dict[str, int], int | None]:
    """How many ranks have each status, and the oldest heartbeat of those that run."""
    recording = Recording(path)
    ranks = [recording.rank_info(rank) for rank in recording.ranks]
    beats = [one.get("heartbeat_ns") for one in ranks if one.get("status") == "running"]
    known = [beat for beat in beats if isinstance(beat, int)]
    return dict(Counter(str(one.get("status", "unknown")) for one in ranks)), min(known, default=None)
