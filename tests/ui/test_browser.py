"""Every view in a real Chromium: no error on the console, no request to another host, no name taken for HTML."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import REPOSITORY
from tests.ui.browser import FOLDER, READY, VIEWS, Site, needs_chromium
from tests.ui.recordings import HOSTILE

pytestmark = needs_chromium

SCREENSHOTS = REPOSITORY / "screenshots"


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
    site.wait("new URLSearchParams(location.search).has('tracks')")
    area, told = "document.querySelector('.timeline').timeline.state.area", site.page.locator("#area").inner_text()
    query, keys = site.page.evaluate("location.search"), site.page.evaluate(f"{area}.keys")
    site.open(query, "#area-grid .ag-row")
    assert site.page.locator("#area").inner_text() == told
    assert site.page.evaluate(f"{area}.keys") == keys
    assert site.page.evaluate("location.search") == query
    site.page.locator(".timeline").focus()
    site.page.keyboard.press("Escape")
    site.wait("!new URLSearchParams(location.search).has('area')")
    site.check()


def test_search_walks_through_what_it_found(site: Site) -> None:
    site.open("?view=timeline", READY["timeline"])
    site.page.locator(".timeline").focus()
    site.page.keyboard.type("/memcpy htod", delay=0)
    assert site.page.evaluate("document.activeElement.value") == "memcpy htod"
    site.page.keyboard.press("Enter")
    site.page.wait_for_selector("#details h2:has-text('Memcpy')")
    assert site.page.locator("#search-count").inner_text() == "8 slices"
    first = site.query().get("slice")
    site.page.get_by_role("button", name="Next").click()
    site.wait(f"(s => s && s !== '{first}')(new URLSearchParams(location.search).get('slice'))")
    site.check()


def test_what_is_typed_fast_stays_in_its_order(site: Site) -> None:
    text = "aten::convolution_backward, the quick brown fox"
    site.open("?view=timeline", READY["timeline"])
    for field in ("search", "track-filter"):
        site.page.locator(f"#{field}").focus()
        for delay, part in enumerate((text[:20], text[20:30], text[30:])):
            site.page.keyboard.type(part, delay=4 * delay)
        site.page.wait_for_timeout(300)  # until it was told, which must not write back
        site.page.keyboard.type("!")
        assert site.page.locator(f"#{field}").input_value() == f"{text}!"
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
    assert "rank 1" in site.page.locator("#scope-rank").inner_text()
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


def test_a_counter_and_memory_lead_to_each_other(site: Site) -> None:
    site.open("?view=timeline", READY["timeline"])
    timeline = "document.querySelector('.timeline').timeline"
    row = f"{timeline}.state.rows.list.find((one) => one.node.label === 'cuda:0 allocated, every event')"
    site.page.evaluate(f"{timeline}.reveal({{ track: ({row}).node.track, start: 1, end: 2 }})")
    site.page.evaluate("new Promise(requestAnimationFrame)")
    x, y = site.page.evaluate(f"[{timeline}.state.view.x(17e6), ({row}).screen + 20]")
    box = site.page.locator(".timeline").bounding_box()
    site.wait(f"{timeline}.state.counters.tiles.size && ![...{timeline}.state.counters.tiles.values()].includes(null)")
    site.page.mouse.move(box["x"] + x, box["y"] + y)
    site.page.wait_for_selector(".timeline-tip:has-text('cuda:0 allocated, every event')")
    assert site.page.locator(".timeline-tip span").inner_text() == "2 MiB"
    site.page.mouse.click(box["x"] + x, box["y"] + y)
    site.page.wait_for_selector("#details dd:has-text('2 MiB')")
    site.wait("new URLSearchParams(location.search).has('counter')")
    at = int(site.query()["at"])
    assert at == pytest.approx(17e6, abs=1e5)
    site.open(site.page.evaluate("location.search"), "#details dd:has-text('2 MiB')")  # the address restores it
    site.page.locator("#details a", has_text="Who holds memory").click()
    site.page.wait_for_selector("h2:has-text('Who holds 2 MiB, 17.')")
    assert (site.query()["at"], site.query()["rank"]) == (str(at), "0")
    site.page.locator("a", has_text="Show on the timeline").click()
    site.page.wait_for_selector("#details h2:has-text('cuda:0 allocated, every event')")
    assert site.page.evaluate(f"{timeline}.state.marks") == [at]
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
