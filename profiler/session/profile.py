"""``stallscope.profile``: the recording as a context manager and as a decorator."""

from __future__ import annotations

import functools
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ..recording.errors import CaptureError
from . import running
from .ending import Ending
from .schedule import Schedule
from .session import Session, cannot_nest
from .settings import resolve_settings

F = TypeVar("F", bound=Callable[..., Any])


class profile:
    """Records what runs inside the block, or inside the decorated function, into a recording at ``path``.

    What the block raises passes through unchanged and becomes the recording's status. Nothing that goes wrong with the
    recording once it has begun reaches the program.

        with stallscope.profile("runs/today", label="baseline") as prof:
            for batch in loader:
                train_step(batch)
                prof.step()

    Args:
        path: The folder of the recording. Under torchrun every rank gives the same one.
        label: What to call the run.
        detail: always, low, normal or deep.
        schedule: Which steps to record: ``stallscope.schedule(...)`` or ``"wait,warm_up,active,repeat"``.
        collectors: Names of collectors to use; with a minus in front, to leave out.
        max_bytes: Stop recording when the rank's folder is this large: a number or "2G".
        force: Replace the recording of another run that is at the path.
        settings: Any other setting by name (docs/capture.md lists them).

    Raises:
        StallscopeError: On entering: the path cannot be used, a setting is wrong, or a recording is running already.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        label: str | None = None,
        detail: str | None = None,
        schedule: Schedule | str | None = None,
        collectors: str | list[str] | tuple[str, ...] | None = None,
        max_bytes: int | str | None = None,
        force: bool = False,
        **settings: Any,
    ) -> None:
        self._path = Path(path)
        self._label, self._force = label, force
        self._arguments: dict[str, Any] = {
            "detail": detail, "schedule": schedule, "collectors": collectors, "max_bytes": max_bytes, **settings,
        }  # fmt: skip
        self._run_id = uuid.uuid4().hex
        self._session: Session | None = None
        self._ending: Ending | None = None

    @property
    def path(self) -> Path:
        """The recording's folder."""
        return self._path

    @property
    def recording_phase(self) -> str:
        """The schedule's phase of the current step: wait, warm_up, active or done."""
        return self._session.phase if self._session is not None else "done"

    def __enter__(self) -> profile:
        if running.session() is not None:
            raise cannot_nest(running.session_path())
        session = Session(
            self._path, resolve_settings(self._arguments), label=self._label, force=self._force,
            run_id=self._run_id,
        )  # fmt: skip
        if running.is_child_that_must_not_record(session.settings["children"]):
            return self
        session.start()
        self._session = session
        self._ending = Ending(session)
        self._ending.install()
        running.enter(session)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is None:
            return
        session, self._session = self._session, None
        assert self._ending is not None
        with self._ending.held_back():
            session.stop("completed" if error is None or _is_clean_exit(error) else "failed", error)
            running.leave(session)
        self._ending.remove()

    def __call__(self, function: F) -> F:
        """Decorates: each call of the function is recorded; a second call makes another attempt of the same run."""

        @functools.wraps(function)
        def recorded(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return recorded  # type: ignore[return-value]

    def step(self) -> None:
        """Says that a training step has ended. From the first call on, nothing else decides where steps end."""
        if self._session is not None:
            self._session.mark_step("explicit")

    @contextmanager
    def annotate(self, name: str) -> Iterator[None]:
        """A named range on the timeline, also outside of what torch's profiler sees."""
        session = self._session
        opened = session.begin_annotation(name) if session is not None else None
        try:
            yield
        finally:
            if session is not None and opened is not None:
                session.end_annotation(opened)


def _is_clean_exit(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (None, 0)


def refuse_without_torch() -> None:
    """Fails early where torch is not installed at all, since then there is nothing to record.

    Raises:
        CaptureError: torch cannot be found.
    """
    from importlib.util import find_spec

    if "torch" not in sys.modules and find_spec("torch") is None:
        raise CaptureError("torch is not installed in this environment.", hint="pip install 'stallscope[torch]'")
