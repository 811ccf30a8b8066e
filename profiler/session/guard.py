"""The net under collectors: what they raise becomes a loss and one warning, and never reaches the program."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

MOST_FAILURES = 10
"""A function that has failed this often is not called any more."""


class CollectorWarning(UserWarning):
    """A collector could not start, or failed; the recording says what is missing."""


@dataclass(slots=True)
class Account:
    """What a collector has cost and how it fares.

    Attributes:
        state: waiting, running, stopped, unavailable, failed or off.
        reason: Why, where it is not running.
        cost_ns: Time spent in its calls and hooks.
        calls: How many there were.
        failures: Exceptions by the function that raised them.
    """

    state: str = "waiting"
    reason: str | None = None
    cost_ns: int = 0
    calls: int = 0
    failures: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For rank.json."""
        told: dict[str, Any] = {"state": self.state, "cost_ns": self.cost_ns, "calls": self.calls}
        if self.reason:
            told["reason"] = self.reason
        if self.failures:
            told["failures"] = dict(self.failures)
        return told


class Guard:
    """Calls what belongs to collectors, and keeps an account of each.

    Args:
        report: Called with (collector, function, exception) at the first failure of each function.
    """

    def __init__(self, report: Callable[[str, str, Exception], None]) -> None:
        self._report = report
        self.accounts: dict[str, Account] = {}

    def account(self, collector: str) -> Account:
        """The account of a collector, opened when it is first asked for."""
        account = self.accounts.get(collector)
        return account if account is not None else self.accounts.setdefault(collector, Account())

    def wrap(self, collector: str, function: Callable[..., Any], default: Any = None) -> Callable[..., Any]:
        """The function with a net under it: returns ``default`` where it raises; after ten failures, always.

        What it takes is the collector's cost, unless it has a true attribute ``is_thread_body``: the life of a thread
        beside the program's is no cost to it.
        """
        account = self.account(collector)
        name = _name_of(function)
        clock = time.perf_counter_ns
        counts = not getattr(function, "is_thread_body", False)

        @wraps(function)
        def guarded(*arguments: Any, **named: Any) -> Any:
            if account.failures and account.failures.get(name, 0) >= MOST_FAILURES:
                return default
            began = clock()
            try:
                return function(*arguments, **named)
            except Exception as error:  # noqa: BLE001 - whatever it is, the program must not see it
                self._failed(collector, account, name, error)
                return default
            finally:
                if counts:
                    account.cost_ns += clock() - began
                    account.calls += 1

        return guarded

    def call(self, collector: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls once under the net; None where it raises. Makes no wrapper: this is called in every step."""
        account = self.account(collector)
        if account.failures and account.failures.get(_name_of(function), 0) >= MOST_FAILURES:
            return None
        began = time.perf_counter_ns()
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must not see it
            self._failed(collector, account, _name_of(function), error)
            return None
        finally:
            account.cost_ns += time.perf_counter_ns() - began
            account.calls += 1

    def _failed(self, collector: str, account: Account, name: str, error: Exception) -> None:
        seen = account.failures.get(name, 0)
        account.failures[name] = seen + 1
        if seen == 0:
            try:
                self._report(collector, name, error)
            except Exception:  # noqa: BLE001 - reporting must not do what it reports
                account.failures["report"] = account.failures.get("report", 0) + 1


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def warn_user(text: str) -> None:
    """One warning, never an exception, even where warnings are turned into errors."""
    try:
        warnings.warn(text, CollectorWarning, stacklevel=2)
    except Warning:
        try:
            sys.stderr.write(f"stallscope: {text}\n")
        except (OSError, ValueError, AttributeError):
            return  # no stderr to talk to
