"""The application on a small recording: as a test client, and as a server for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

for _needed in ("dash", "dash_ag_grid", "waitress"):
    pytest.importorskip(_needed, reason=f"{_needed} is not installed: pip install 'stallscope[ui]'")

from flask.testing import FlaskClient

from stallscope.profiler.recording.reader import Recording
from stallscope.ui.app import create_app
from stallscope.ui.served import Served
from tests.ui.recordings import training

PORT = 8050


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return training(tmp_path / "recording")


@pytest.fixture
def served(recording: Recording) -> Served:
    return Served(recording, "small")


class LocalClient(FlaskClient):
    """Sends the Host that a browser on this machine would send."""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("base_url", f"http://127.0.0.1:{PORT}")
        return super().open(*args, buffered=True, **kwargs)


@pytest.fixture
def client(recording: Recording) -> FlaskClient:
    server = create_app([(recording, "small")], port=PORT).server
    server.test_client_class = LocalClient
    client: FlaskClient = server.test_client()
    return client
