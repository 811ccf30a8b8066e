"""What keeps other sites and other people out: the Host header, the content policy, and a token on a network address.

A server on the loopback address can still be reached by any page in the user's browser: by a name that an attacker
points at 127.0.0.1 (the Host header tells), or by a request from another site (Sec-Fetch-Site tells). Names in a trace
are not trusted, so no script may run but the ones that were shipped.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlencode

import flask

COOKIE = "stallscope_token"
"""Holds the token after the first request, so that it leaves the address bar."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether nothing but this machine can reach a server that is bound to this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """The Host headers that a server bound to ``host`` answers to, with its port."""
    names = {*LOOPBACK, f"[{host}]" if ":" in host else host}
    if not is_loopback(host):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    with_port = {f"{name}:{port}" for name in names}
    return frozenset(with_port | names if port == 80 else with_port)


def content_policy(script_hashes: Sequence[str]) -> str:
    """The Content-Security-Policy: everything from this server, no eval, inline scripts only by their hash."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {' '.join(script_hashes)}".strip(),
            "style-src 'self' 'unsafe-inline'",  # Dash, Plotly and AG Grid set styles from script
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def protect(server: flask.Flask, *, host: str, port: int, script_hashes: Sequence[str], token: str | None) -> None:
    """Adds the checks to a server.

    Args:
        server: The server.
        host: The address that it is bound to.
        port: Its port.
        script_hashes: The hashes of Dash's inline scripts, quoted.
        token: What a client has to know; None where only this machine can reach it.
    """
    hosts, policy = allowed_hosts(host, port), content_policy(script_hashes)
    any_address = token is not None

    def check() -> flask.Response | None:
        if not _host_allowed(flask.request.headers.get("Host", ""), hosts, port, any_address):
            flask.abort(403, "this Host is not allowed")
        if _from_another_site():
            flask.abort(403, "requests from other sites are not allowed")
        return _token_refusal(token) if token is not None else None

    def harden(response: flask.Response) -> flask.Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return response

    server.before_request(check)
    server.after_request(harden)


def _host_allowed(header: str, hosts: frozenset[str], port: int, any_address: bool) -> bool:
    """Whether the Host is one of ours; with a token also any literal address, which no name server can forge."""
    if header.lower() in hosts:
        return True
    if not any_address:
        return False
    name, _, given = header.rpartition(":")
    if given != str(port):
        return False
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _from_another_site() -> bool:
    """Whether a page of another site asks; following a link to a page of ours is allowed."""
    headers = flask.request.headers
    if headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none"):
        return False
    opens_a_page = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    return not (opens_a_page and flask.request.method == "GET")


def _token_refusal(token: str) -> flask.Response | None:
    """None for a client that has the token as a cookie; otherwise what to answer instead of the page."""
    if _same(flask.request.cookies.get(COOKIE, ""), token):
        return None
    if not _same(flask.request.args.get("token", ""), token):
        flask.abort(403, "open the address with the token that `stallscope ui` printed")
    rest = {name: value for name, value in flask.request.args.items() if name != "token"}
    response = flask.make_response("", 302)
    response.headers["Location"] = flask.request.path + (f"?{urlencode(rest)}" if rest else "")
    response.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
    return response


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
