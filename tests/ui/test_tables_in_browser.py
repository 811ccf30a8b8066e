"""Memory, kernels, ops, SQL and the choice of rank and step, in a real Chromium."""

from __future__ import annotations

import pytest

from tests.ui.browser import READY, VIEWS, Site, needs_chromium
from tests.ui.recordings import HOSTILE, STEPS

pytestmark = needs_chromium

MIB = 1 << 20


def test_memory_says_the_peak_and_who_holds_it(site: Site) -> None:
    site.open("?view=memory&rank=1", READY["memory"])
    words = site.page.locator("h1").inner_text()
    assert words.startswith(f"cuda:1 held {STEPS + 6} MiB at its peak")
    assert f"100.0 % of it is aten::mm{HOSTILE}"[:60] in words
    site.page.wait_for_selector("#memory-curve .scatterlayer .trace", state="attached")
    row = site.page.locator("#holder-grid .ag-row").first
    assert row.locator("[col-id=holder]").inner_text() == f"aten::mm{HOSTILE}"
    assert row.locator("[col-id=bytes]").inner_text() == "10.0 MiB"
    assert row.locator("[col-id=blocks]").inner_text() == str(STEPS + 2)
    assert site.page.locator("#block-grid .ag-row").count() == STEPS + 2
    site.check()


def test_a_click_on_the_curve_chooses_the_moment(site: Site) -> None:
    site.open("?view=memory&rank=0&step=1", READY["memory"])
    assert "in step 1" in site.page.locator("h1").inner_text()
    box = site.page.locator("#memory-curve .nsewdrag").first.bounding_box()
    site.page.mouse.move(box["x"] + 60, box["y"] + 60)
    site.page.mouse.move(box["x"] + 3, box["y"] + 60)
    site.page.wait_for_selector("#memory-curve .hoverlayer > *", state="attached")
    site.page.mouse.click(box["x"] + 3, box["y"] + 60)
    site.wait("new URLSearchParams(location.search).has('at')")
    assert int(site.query()["at"]) == 10_000_000  # the step's beginning
    site.page.wait_for_selector("h2:has-text('Who holds 1 MiB, 10.0 ms after the start')")
    site.check()


def test_a_block_leads_to_its_allocation(site: Site) -> None:
    site.open("?view=memory&rank=0", READY["memory"])
    site.page.locator("#holder-grid .ag-row").first.click()
    site.page.wait_for_selector("h2:has-text('blocks alive of')")
    site.page.locator("#block-grid .ag-row").first.click()
    site.page.wait_for_selector("#details dl")
    assert site.page.locator("#details h2").inner_text() == f"aten::mm{HOSTILE}"
    site.check()


def test_a_kernel_leads_to_its_longest_piece(site: Site) -> None:
    site.open("?view=kernels&rank=1&step=2", READY["kernels"])
    first = site.page.locator("#kernel-grid .ag-row").first
    assert "<img src=x onerror=" in first.locator("[col-id=short_name]").inner_text()
    assert first.locator("[col-id=total_ns]").inner_text() == "3.00 ms"
    first.click()
    site.page.wait_for_selector("#details dl")
    frame = site.served.recording.sql("select slice_id from slices where category = 'kernel' and rank = 1 order by ts")
    assert site.query()["slice"] == str(frame["slice_id"].to_pylist()[2])
    site.check()


def test_the_filter_leaves_rows_and_stays_in_the_address(site: Site) -> None:
    site.open("?view=kernels", READY["kernels"])
    assert site.page.locator("#kernel-grid .ag-center-cols-container .ag-row").count() == 2
    site.page.locator("#row-filter").fill("memcpy")
    site.wait("document.querySelectorAll('#kernel-grid .ag-center-cols-container .ag-row').length === 1")
    site.wait("new URLSearchParams(location.search).get('filter') === 'memcpy'")
    site.open("?view=kernels&filter=memcpy", READY["kernels"])
    site.wait("document.querySelectorAll('#kernel-grid .ag-center-cols-container .ag-row').length === 1")
    site.check()


def test_an_op_leads_to_its_longest_call(site: Site) -> None:
    site.open("?view=ops", READY["ops"])
    row = site.page.locator("#op-grid .ag-row").first
    assert row.locator("[col-id=op]").inner_text() == f"aten::mm{HOSTILE}"
    row.click()
    site.page.wait_for_selector("#details dl")
    assert site.page.locator("#details h2").inner_text() == f"aten::mm{HOSTILE}"
    site.check()


def test_a_row_of_a_query_leads_to_its_slice(site: Site) -> None:
    site.open("?view=sql", "#sql-text")
    site.page.locator("#sql-text").fill("select slice_id, name, name as \"a.b\" from slices where category = 'memcpy'")
    site.page.keyboard.press("Control+Enter")
    site.page.wait_for_selector("#sql-grid .ag-row")
    assert "8 rows." in site.page.locator("#sql-result").inner_text()
    row = site.page.locator("#sql-grid .ag-row").first
    assert [row.locator(f"[col-id=c{n}]").inner_text() for n in (1, 2)] == ["Memcpy HtoD"] * 2
    wanted = row.locator("[col-id=c0]").inner_text()
    row.click()
    site.page.wait_for_selector("#details dl")
    assert site.query()["slice"] == wanted
    site.check()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select 1; select 2", "a query is one SELECT"),
        ("select * from read_csv('/etc/passwd')", "is refused"),
        ("select nothing from slices", "nothing"),
    ],
)
def test_a_query_that_is_refused_says_why(site: Site, query: str, words: str) -> None:
    site.open("?view=sql", "#sql-text")
    site.page.locator("#sql-text").fill(query)
    site.page.locator("#sql-run").click()
    site.page.wait_for_selector(f"#sql-result .wrong:has-text('{words}')")
    site.check()


def test_every_page_keeps_rank_and_step(site: Site) -> None:
    site.open("?view=overview", ".section")
    site.page.locator("#scope-rank").click()
    site.page.locator(".dash-dropdown-option", has_text="rank 1").click()
    site.page.wait_for_selector(".views a[href*='rank=1']")
    site.page.locator("#scope-step").click()
    site.page.locator(".dash-dropdown-option", has_text="step 2").click()
    site.page.wait_for_selector(".views a[href*='step=2']")
    for view in VIEWS[1:]:
        site.page.locator(f".views a[href*='view={view}']").click()
        site.page.wait_for_selector(READY.get(view, "main .section"))
        query = site.query()
        assert (query["view"], query["rank"], query["step"]) == (view, "1", "2")
    site.check()


def test_the_timeline_of_a_rank_and_step(site: Site) -> None:
    site.open("?view=timeline&rank=1&step=2", READY["timeline"])
    state = "document.querySelector('.timeline').timeline.state"
    assert site.page.evaluate(f"{state}.meta.tree.map((node) => node.key)") == ["rank1"]
    start, end = site.page.evaluate(f"[{state}.view.start, {state}.view.start + {state}.view.length]")
    assert (start, end) == (20_000_000, 36_300_000)  # until the device's step ends, where the next one's work begins
    site.check()
