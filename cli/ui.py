"""``stallscope ui``: the recording in a browser."""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .command import described
from .options import sources_argument

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_NEEDED = ("dash", "dash_ag_grid", "waitress")


@described(
    "ui",
    examples=(
        ("Look at a trace in the browser", "stallscope ui trace.json.gz"),
        ("On a server without a display; the command says how to reach it", "stallscope ui runs/today --no-browser"),
        ("All recordings of a folder in one browser", "stallscope ui runs"),
        ("A training that is still being recorded", "stallscope ui runs/today"),
    ),
)
@sources_argument
@click.option("--port", type=click.IntRange(0, 65535), default=8050, show_default=True, help="0 takes any free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; any but this machine's own needs the token that is printed.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def command(sources: tuple[Path, ...], port: int, host: str, no_browser: bool) -> None:
    """Show recordings in the browser: what to do, the timeline, stalls, memory, source, tables, SQL.

    The server listens on this machine only, and serves nothing but the recordings. Several recordings,
    or a folder of them, are listed first, also those that come into the folder later; several trace files
    of one job are one recording. A recording that is still running can be watched: the page says how it
    is, and offers what is new.
    """
    _must_have_extra()
    import waitress

    from ..ui.app import create_app
    from ..ui.recording_folders import RecordingFolders
    from ..ui.security import is_loopback

    recordings, folders = _recordings(sources)
    listener = _listener(host, port)
    port = int(listener.getsockname()[1])
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    newcomers = RecordingFolders(folders, [one for one, _ in recordings]).newcomers if folders else None
    app = create_app(recordings, newcomers=newcomers, host=host, port=port, token=token)
    address = _say(host, port, token)
    if not no_browser:
        webbrowser.open(address)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that what was linked for a running recording is removed
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns of every request that waits a moment
    waitress.serve(app.server, sockets=[listener], threads=6, ident="")


def _must_have_extra() -> None:
    from ..profiler.recording.errors import UsageError

    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the browser needs {', '.join(missing)}, which is not installed.",
            hint="Install it with: pip install 'stallscope[ui]'",
        )


def _recordings(sources: tuple[Path, ...]) -> tuple[list[tuple[Recording, str]], list[Path]]:
    """Each recording that is named or lies in a folder that is, with its label; trace files together are one.

    And the folders that recordings lie in: more may come.

    Raises:
        UsageError: None can be opened.
    """
    from ..profiler.recording.errors import StallscopeError, UsageError
    from ..profiler.recording.layout import is_recording
    from ..ui.recording_folders import inside, label_of
    from .opening import existing, opened, source_name

    groups: list[tuple[Path, ...]] = []
    folders: list[Path] = []
    traces: list[Path] = []
    for path in existing(sources):
        found_inside = inside(path) if path.is_dir() and not is_recording(path) else []
        if found_inside:
            folders.append(path)
            groups += [(one,) for one in found_inside]
        elif path.is_dir() and is_recording(path):
            groups.append((path,))
        else:
            traces.append(path)
    groups += [tuple(traces)] if traces else []
    found: list[tuple[Recording, str]] = []
    for group in groups:
        try:
            recording = opened(group)
        except StallscopeError as error:
            if len(groups) == 1:
                raise
            click.echo(f"Left out {source_name(group)}: {error.message}", err=True)
            continue
        several = len(groups) > 1 or bool(folders)
        found.append((recording, label_of(recording, source_name(group), several=several)))
    if not found:
        raise UsageError("none of the recordings can be opened.")
    return found, folders


def _listener(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that a port in use is told before anything is worked out.

    Raises:
        UsageError: The address cannot be bound.
    """
    from ..profiler.recording.errors import UsageError

    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}.", hint="Try --port 0 for any free port."
        ) from error


def _say(host: str, port: int, token: str | None) -> str:
    """Prints where it is and how to reach it from elsewhere; returns the address."""
    shown = "127.0.0.1" if host in ("0.0.0.0", "localhost") else "[::1]" if host == "::" else host
    shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
    address = f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
    click.echo(f"stallscope is at {address}")
    if token is None:
        click.echo(
            f"From another machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}, then the same address."
        )
    else:
        click.echo("Whoever has this address can read the recordings; what is sent is not encrypted.")
    click.echo("Ctrl-C ends it.")
    return address
