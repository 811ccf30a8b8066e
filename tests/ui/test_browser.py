"""Every view in a real Chromium: no error on the console, no request to another host, no name taken for HTML."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stallscope.profiler.recording.reader import open_recording
from stallscope.ui.served import Served
from tests.conftest import REPOSITORY
from tests.ui.recordings import HOSTILE, training

playwright_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")

FOLDER = "<img src=x onerror=alert(1)>"
SCREENSHOTS = REPOSITORY / "screenshots"
VIEWS = ("overview", "timeline", "stalls", "source")
READY = {"timeline": ".timeline[data-ready]", "stalls": "#stall-grid .ag-row"}


@dataclass
class Site:
    """A page at a server, with everything that went wrong on it."""

    page: Any
    address: str
    served: Served
    problems: list[str] = field(default_factory=list)

    def open(self, query: str, ready: str) -> None:
        self.page.goto(f"{self.address}/{query}")
        self.page.wait_for_selector(ready, timeout=20_000)

    def query(self) -> dict[str, str]:
        """The query of the address bar."""
        answer: dict[str, str] = self.page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
        return answer

    def wait(self, condition: str) -> None:
        # As a function: a bare expression would need eval, which the page forbids.
        self.page.wait_for_function(f"() => {condition}", polling=50, timeout=10_000)

    def check(self) -> None:
        """Nothing went wrong so far, and no name was taken for HTML."""
        self.page.wait_for_timeout(200)
        assert self.problems == []
        assert self.page.evaluate("document.body.dataset.owned") is None
        assert self.page.locator("img").count() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording's folder, whose name the pages show."""
    path = tmp_path_factory.mktemp("browser") / FOLDER
    training(path)
    return path


@pytest.fixture(scope="module")
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


@pytest.fixture
def served(folder: Path) -> Served:
    return Served(open_recording(folder), FOLDER)


@pytest.fixture(params=["dark"])
def site(browser: Any, address: str, served: Served, request: pytest.FixtureRequest) -> Iterator[Site]:
    context = browser.new_context(viewport={"width": 1280, "height": 720}, color_scheme=request.param)
    page = context.new_page()
    site = Site(page, address, served)

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


@pytest.mark.parametrize("site", ["dark", "light"], indirect=True)
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_shows(site: Site, view: str) -> None:
    site.open(f"?view={view}", READY.get(view, ".section"))
    ground = site.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground in ("rgb(20, 23, 28)", "rgb(255, 255, 255)")
    SCREENSHOTS.mkdir(exist_ok=True)
    theme = "dark" if ground == "rgb(20, 23, 28)" else "light"
    site.page.wait_for_timeout(300)
    site.page.screenshot(path=SCREENSHOTS / f"small_{view}_{theme}.png")
    assert site.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    site.check()


def test_the_overview_says_what_to_do(site: Site) -> None:
    site.open("?view=overview", ".card")
    assert site.page.locator("h1").inner_text() == site.served.findings.verdict
    assert site.page.locator(".card").count() == len(site.served.findings.findings)
    assert f"Test GPU {HOSTILE}" in site.page.locator("main").inner_text()
    assert site.page.locator("header .label").inner_text() == FOLDER
    site.page.wait_for_selector(".chart .barlayer .point", state="attached")
    site.check()


def test_a_finding_leads_to_its_slice(site: Site) -> None:
    site.open("?view=overview", ".card")
    site.page.get_by_text("Show on the timeline").first.click()
    site.page.wait_for_selector("#details dl")
    assert site.query()["slice"] == str(site.served.findings.findings[0].slice_ids[0])
    site.check()


def test_a_row_of_stalls_opens_the_longest_stall(site: Site) -> None:
    site.open("?view=stalls", READY["stalls"])
    site.page.locator("#stall-grid .ag-row").first.click()
    site.page.wait_for_selector("#details h3:has-text('Rests on')")
    site.wait("new URLSearchParams(location.search).has('start')")
    index = site.served.bands.index
    lengths = np.where(index.slice_id >= 0, index.end - index.start, 0)
    entry = site.served.bands.entry_of_stall(int(site.query()["stall"]))
    assert entry is not None
    assert lengths[entry] == lengths.max()
    assert "input" in site.page.locator("#details h2").inner_text()
    site.check()


def test_a_click_picks_and_the_address_restores_it(site: Site) -> None:
    site.open("?view=timeline", READY["timeline"])
    box = site.page.locator(".timeline").bounding_box()
    found = site.page.evaluate(
        """() => {
            const { state } = document.querySelector(".timeline").timeline;
            const row = state.visible.find((one) => one.node.kind === "stream");
            return { y: row.screen + 8, x: state.view.x(7e6) };
        }"""
    )
    site.page.mouse.click(box["x"] + found["x"], box["y"] + found["y"])
    site.page.wait_for_selector("#details dl")
    assert HOSTILE in site.page.locator("#details h2").inner_text()
    site.wait("new URLSearchParams(location.search).has('slice')")
    query, before = site.page.evaluate("location.search"), site.page.locator("#details").inner_text()
    site.open(query, "#details dl")
    assert site.page.locator("#details").inner_text() == before
    site.check()


def test_an_area_has_statistics(site: Site) -> None:
    site.open("?view=timeline", READY["timeline"])
    box = site.page.locator(".timeline").bounding_box()
    site.page.mouse.move(box["x"] + 400, box["y"] + 80)
    site.page.mouse.down()
    site.page.mouse.move(box["x"] + 800, box["y"] + 300, steps=4)
    site.page.mouse.up()
    site.page.wait_for_selector("#area-grid .ag-row")
    assert site.page.locator("#area .table tbody tr").count() >= 2  # states of the device
    site.check()


def test_search_walks_through_what_it_found(site: Site) -> None:
    site.open("?view=timeline", READY["timeline"])
    site.page.locator(".timeline").focus()
    site.page.keyboard.press("/")
    site.wait("document.activeElement.id === 'search'")
    site.page.keyboard.type("memcpy")
    site.page.keyboard.press("Enter")
    site.page.wait_for_selector("#details h2:has-text('Memcpy')")
    assert site.page.locator("#search-count").inner_text() == "8 slices"
    first = site.query().get("slice")
    site.page.get_by_role("button", name="Next").click()
    site.wait(f"(s => s && s !== '{first}')(new URLSearchParams(location.search).get('slice'))")
    site.check()


def test_keys_zoom_help_and_fit(site: Site) -> None:
    site.open("?view=timeline", READY["timeline"])
    view = "document.querySelector('.timeline').timeline.state.view"
    span = site.page.evaluate(f"{view}.span")
    site.page.locator(".timeline").focus()
    site.page.keyboard.down("w")
    site.wait(f"{view}.length < {span} / 2")
    site.page.keyboard.up("w")
    site.wait("new URLSearchParams(location.search).has('start')")
    site.page.keyboard.press("?")
    assert site.page.locator(".timeline-help").is_visible()
    site.page.keyboard.press("?")
    assert not site.page.locator(".timeline-help").is_visible()
    site.page.keyboard.press("f")
    site.wait(f"{view}.length === {span}")
    site.check()


def test_the_source_marks_the_asked_line_and_leads_to_its_stall(site: Site) -> None:
    site.open("?view=source&rank=1", ".code")
    assert "rank" in site.page.locator(".chips").inner_text()
    stall = site.page.locator(".code td.number a[href*='view=timeline']").first
    stall.click()
    site.page.wait_for_selector("#details h2:has-text('Stall')")
    site.check()


@pytest.mark.parametrize(
    "query",
    [
        "?view=nonsense",
        "?recording=../../etc",
        "?view=timeline&slice=9&start=x&end=-1",
        "?view=timeline&stall=99999999999999999",
        "?view=source&file=/etc/passwd&line=1",
        "?view=stalls&rank=99&cause=<b>",
        "?view=timeline&line=0:1:/etc/passwd",
    ],
)
def test_a_wrong_address_still_shows_a_view(site: Site, query: str) -> None:
    site.open(query, "main > div > *")
    assert "root:" not in site.page.locator("main").inner_text()
    site.check()


def test_many_zooms_do_not_grow_what_is_kept(site: Site) -> None:
    site.open("?view=timeline", READY["timeline"])
    kept = site.page.evaluate(
        """async () => {
            const one = document.querySelector(".timeline").timeline;
            for (let n = 0; n < 120; n++) {
                one.zoomAt(n % 40 < 20 ? 0.6 : 1 / 0.6, 300 + (n * 37) % 700);
                await new Promise(requestAnimationFrame);
            }
            return one.state.tiles.tiles.size;
        }"""
    )
    assert kept <= 4000
    site.check()


def test_no_page_tells_where_the_recording_lies(site: Site, folder: Path) -> None:
    for view in VIEWS:
        site.open(f"?view={view}", READY.get(view, ".section"))
        assert str(folder.parent) not in site.page.content()
