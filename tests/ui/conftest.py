"""The application on a small recording: as a test client, and as a server for a browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stallscope.profiler.recording.reader import Recording, open_recording
from tests.ui.browser import CHROMIUM, FOLDER, Site
from tests.ui.recordings import training

if TYPE_CHECKING:
    from flask.testing import FlaskClient

    from stallscope.ui.served import Served

if any(find_spec(name) is None for name in ("dash", "dash_ag_grid", "waitress")):
    # pip install 'stallscope[ui]'
    collect_ignore_glob = ["test_*.py"]

PORT = 8050


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return training(tmp_path / "recording")


@pytest.fixture
def served(recording: Recording) -> Served:
    from stallscope.ui.served import Served

    return Served(recording, "small")


@pytest.fixture
def client(recording: Recording) -> FlaskClient:
    """A client that sends the Host that a browser on this machine would send."""
    from flask.testing import FlaskClient

    from stallscope.ui.app import create_app

    class LocalClient(FlaskClient):
        def open(self, *args: Any, **kwargs: Any) -> Any:
            kwargs.setdefault("base_url", f"http://127.0.0.1:{PORT}")
            return super().open(*args, buffered=True, **kwargs)

    server = create_app([(recording, "small")], port=PORT).server
    server.test_client_class = LocalClient
    client: FlaskClient = server.test_client()
    return client


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium for all tests of a run."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording's folder, whose name the pages show."""
    path = tmp_path_factory.mktemp("browser") / FOLDER
    training(path, memory=True)
    return path


@pytest.fixture(scope="session")
def address(folder: Path) -> Iterator[str]:
    """Where ``stallscope ui`` serves it."""
    command = [sys.executable, "-m", "stallscope.cli", "ui", str(folder), "--port", "0", "--no-browser"]
    environment = os.environ | {"XDG_CACHE_HOME": str(folder.parent / "cache"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert found, said
        yield found[0]
        process.terminate()


@pytest.fixture(params=["dark"])
def site(browser: Any, address: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A page at that server in the dark theme, or in the one that the test's parameter names."""
    from stallscope.ui.served import Served

    context = browser.new_context(viewport={"width": 1280, "height": 720}, color_scheme=request.param)
    page = context.new_page()
    page.set_default_timeout(60_000)  # a busy machine is no defect
    site = Site(page, address, Served(open_recording(folder), FOLDER))

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning"):
            site.problems.append(f"console: {message.text}")

    def on_request(asked: Any) -> None:
        if not asked.url.startswith((f"{address}/", "data:", "blob:")):
            site.problems.append(f"request: {asked.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: site.problems.append(f"error: {error}"))
    page.on("request", on_request)
    page.on("response", lambda a: site.problems.append(f"{a.status}: {a.url}") if a.status >= 400 else None)
    yield site
    context.close()
