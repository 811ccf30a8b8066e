"""A page in a real Chromium, and everything that goes wrong on it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stallscope.ui.served import Served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="no chromium on the path, or no playwright: pip install playwright",
)

FOLDER = "<img src=x onerror=alert(1)>"
"""The name of the folder that the served recording lies in."""

VIEWS = (
    "overview", "timeline", "stalls", "dependencies", "hierarchy", "compare",
    "memory", "source", "kernels", "ops", "sql",
)  # fmt: skip
READY = {
    "dependencies": ".graph-box",
    "hierarchy": ".icicle canvas",
    "timeline": ".timeline[data-ready]",
    "stalls": "#stall-grid .ag-row",
    "memory": "#holder-grid .ag-row",
    "kernels": "#kernel-grid .ag-row",
    "ops": "#op-grid .ag-row",
}
"""What a view shows when it is complete; of the others, a section."""


@dataclass
class Site:
    """A page at a server, with everything that went wrong on it."""

    page: Any
    address: str
    served: Served
    problems: list[str] = field(default_factory=list)

    def open(self, query: str, ready: str) -> None:
        self.page.goto(f"{self.address}/{query}")
        self.page.wait_for_selector(ready, timeout=60_000)

    def query(self) -> dict[str, str]:
        """The query of the address bar."""
        answer: dict[str, str] = self.page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
        return answer

    def wait(self, condition: str) -> None:
        # As a function: a bare expression would need eval, which the page forbids.
        self.page.wait_for_function(f"() => {condition}", polling=50, timeout=60_000)

    def check(self) -> None:
        """Nothing went wrong so far, and no name was taken for HTML."""
        self.page.wait_for_timeout(200)
        assert self.problems == []
        assert self.page.evaluate("document.body.dataset.owned") is None
        assert self.page.locator("img").count() == 0
