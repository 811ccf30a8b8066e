"""The application on a small recording: as a test client, and as a server for a browser."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stallscope.profiler.recording.reader import Recording
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
