"""Who may ask the server what: the Host header, other sites, the content policy, the token, and paths."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stallscope.profiler.recording.reader import Recording
from stallscope.ui.app import create_app
from stallscope.ui.security import COOKIE, allowed_hosts, is_loopback
from stallscope.ui.served import Served
from tests.ui.conftest import PORT

PATHS = ["/", "/_dash-layout", "/_dash-dependencies", "/assets/style.css", "/data/x/meta"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        f"evil.com:{PORT}",
        f"127.0.0.1.evil.com:{PORT}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"localhost.:{PORT}",
        "",
    ],
)
def test_another_host_is_refused_everywhere(client: Any, path: str, host: str) -> None:
    assert client.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_this_machine_is_answered(client: Any, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


def test_a_literal_address_is_no_host_of_a_loopback_server(client: Any) -> None:
    assert client.get("/", headers={"Host": f"192.168.1.5:{PORT}"}).status_code == 403


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, "GET", 403),
        ({"Sec-Fetch-Site": "same-site"}, "GET", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, "GET", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, "GET", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, "POST", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, "GET", 200),
        ({"Sec-Fetch-Site": "same-origin"}, "GET", 200),
        ({"Sec-Fetch-Site": "none"}, "GET", 200),
        ({}, "GET", 200),
    ],
)
def test_other_sites_may_only_link_to_a_page(client: Any, headers: dict[str, str], method: str, status: int) -> None:
    assert client.open("/", method=method, headers=headers).status_code == status


def test_every_answer_has_a_strict_policy(client: Any, served: Served) -> None:
    for path in ("/", "/assets/style.css", f"/data/{served.key}/meta", "/nowhere/at/all", f"/data/{served.key}/tiles"):
        policy = client.get(path).headers["Content-Security-Policy"]
        scripts = re.search(r"script-src ([^;]*)", policy)
        assert scripts is not None
        assert "default-src 'none'" in policy
        assert "unsafe" not in scripts[1]
        assert all(part == "'self'" or part.startswith("'sha256-") for part in scripts[1].split())
        assert "connect-src 'self'" in policy
        assert not re.search(r"https?:|\*", policy)
    assert client.get("/", headers={"Host": "evil.com"}).headers["Content-Security-Policy"]


def test_the_page_names_no_other_host(client: Any) -> None:
    page = client.get("/").get_data(as_text=True)
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//[^\"]*", page) == []


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../app.py", "/assets/..%2fapp.py", "/assets/%2e%2e/app.py", "/assets//etc/passwd",
        "/assets/../timeline/package.json", "/data/../../etc/passwd", "/data/..%2f..%2f/meta", "/recording.json",
        "/_dash-component-suites/stallscope/../../../etc/passwd", "/_dash-component-suites/stallscope/ui/app.py",
    ],
)  # fmt: skip
def test_no_file_outside_the_assets_is_served(client: Any, path: str) -> None:
    answer = client.get(path)
    text = answer.get_data(as_text=True)
    assert "root:" not in text
    assert "create_app" not in text
    assert "esbuild" not in text
    # An unknown path below no prefix is Dash's page, which holds nothing of the recording.
    assert answer.status_code in (400, 403, 404, 500) or "_dash-config" in text


def test_a_network_address_needs_the_token(recording: Recording) -> None:
    client = create_app([(recording, "small")], host="0.0.0.0", port=PORT, token="secret token").server.test_client()
    there = f"http://192.168.1.5:{PORT}"
    for path in PATHS:
        assert client.get(path, base_url=there).status_code == 403
        assert client.get(path, query_string={"token": "secret"}, base_url=there).status_code == 403
    answer = client.get("/", query_string={"token": "secret token", "view": "stalls"}, base_url=there)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/?view=stalls")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/", base_url=there).status_code == 200
    assert client.get("/", base_url=there, headers={"Host": f"evil.com:{PORT}"}).status_code == 403
    client.set_cookie(COOKIE, "wrong", domain="192.168.1.5")
    assert client.get("/", base_url=there).status_code == 403


def test_hosts_of_a_network_address() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.com")
    assert allowed_hosts("127.0.0.1", 80) >= {"127.0.0.1", "localhost:80"}
    assert "127.0.0.1" not in allowed_hosts("127.0.0.1", 8050)
