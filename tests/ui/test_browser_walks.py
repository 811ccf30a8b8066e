"""Dependencies, hierarchy and comparison in a real Chromium: walked by keyboard, and linked to the other views."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from stallscope.analysis.dependency_chain import dependency_chain
from stallscope.analysis.hierarchy import hierarchy
from stallscope.profiler.recording.ids import rank_of
from tests.ui.browser import READY, Site, needs_chromium
from tests.ui.recordings import HOSTILE, training

pytestmark = needs_chromium


def test_the_chain_is_walked_by_keyboard(site: Site) -> None:
    site.open("?view=dependencies", READY["dependencies"])
    picked = int(site.page.locator(".graph-box.picked").get_attribute("data-key"))
    chain = dependency_chain(site.served.recording, rank_of(picked), picked)
    assert chain is not None
    assert site.page.locator(".graph-box").count() == len(chain.slices)
    assert site.page.locator(".graph-arrow").count() == len(chain.arrows)
    decided = next(arrow for arrow in chain.arrows if arrow.to_slice_id == picked and arrow.decided)
    site.page.locator(".graph-box.picked").focus()
    site.page.keyboard.press("ArrowLeft")
    assert site.page.evaluate("document.activeElement.dataset.key") == str(decided.from_slice_id)
    site.page.keyboard.press("Enter")
    site.wait(f"new URLSearchParams(location.search).get('slice') === '{decided.from_slice_id}'")
    site.page.wait_for_selector(f".graph-box.picked[data-key='{decided.from_slice_id}']")
    site.page.get_by_text("Show on the timeline").click()
    site.page.wait_for_selector("#details dl")
    site.page.locator("#details").get_by_text("Dependencies").click()
    site.page.wait_for_selector(f".graph-box.picked[data-key='{decided.from_slice_id}']")
    site.check()


def test_a_slice_that_is_not_there_has_no_chain(site: Site) -> None:
    for query in ("&slice=99999999", "&slice=x", "&slice=-1", "&slice=99999999999999999999999"):
        site.open(f"?view=dependencies{query}", ".section")
    site.check()


def test_the_icicle_shows_what_the_analysis_says(site: Site) -> None:
    site.open("?view=hierarchy&measure=device&rank=1", READY["hierarchy"])
    tree = hierarchy(site.served.recording, 1, measure="device")
    icicle = "document.querySelector('.icicle').icicle"
    site.wait(f"{icicle}.placed.whole === {tree.whole_ns}")
    site.page.locator(".icicle").focus()
    site.page.keyboard.press("ArrowDown")
    site.page.wait_for_selector("#node dl")
    assert site.page.locator("#node h2").inner_text() == tree.names[0]
    site.page.keyboard.press("ArrowDown")
    site.wait(f"document.querySelector('#node h2').innerText !== {tree.names[0]!r}")
    site.page.keyboard.press("Enter")
    chosen = site.page.evaluate(f"({icicle}).picked")
    assert tree.parent[chosen] == 0
    assert site.page.evaluate(f"({icicle}).view.length") == pytest.approx(tree.total_ns[chosen])
    site.page.keyboard.press("Escape")
    assert site.page.evaluate(f"({icicle}).view.length") == tree.whole_ns
    site.page.mouse.move(640, 320)
    site.page.locator(".icicle").click(position={"x": 300, "y": 30})
    site.page.wait_for_selector("#node dl")
    site.check()


def test_the_icicle_leads_to_the_longest_slice(site: Site) -> None:
    site.open("?view=hierarchy&measure=stall", READY["hierarchy"])
    tree = hierarchy(site.served.recording, 0, measure="stall")
    node = int(tree.self_ns.argmax())
    site.page.evaluate(f"document.querySelector('.icicle').icicle.pick({node})")
    site.page.wait_for_selector("#node dl")
    site.page.get_by_text("Longest stall on the timeline").click()
    site.page.wait_for_selector("#details h2:has-text('Stall')")
    assert site.query()["stall"] == str(int(tree.longest[node]))
    site.check()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Any]]]:
    """Two recordings at one server, its address first."""
    import waitress

    from stallscope.ui.app import create_app
    from stallscope.ui.served import Served

    folder = tmp_path_factory.mktemp("pair")
    recordings = [(training(folder / f"{HOSTILE[:18]}{n}", n), f"{HOSTILE} {n}") for n in (1, 2)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = waitress.create_server(create_app(recordings, port=port).server, sockets=[listener], threads=4)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}", [Served(*one) for one in recordings]
        server.close()
        thread.join(timeout=10)


def test_two_timelines_begin_at_the_same_step_and_move_together(pair: tuple[str, list[Any]], browser: Any) -> None:
    address, (base, new) = pair
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    site = Site(page, address, new)
    page.on("console", lambda said: site.problems.append(said.text) if said.type in ("error", "warning") else None)
    site.open(f"?view=compare&recording={new.key}&base={base.key}&step=2", "#compare-new[data-ready]")
    page.wait_for_selector("#compare-base[data-ready]")
    views = """() => ["compare-base", "compare-new"].map((id) => {
        const { view } = document.getElementById(id).timeline.state;
        return [view.start, view.end];
    })"""
    before = page.evaluate(views)
    starts = [
        int(one.outline.device_steps[0].starts[one.outline.device_steps[0].numbers.tolist().index(2)]) - one.origin
        for one in (base, new)
    ]
    assert before[0][0] - starts[0] == pytest.approx(before[1][0] - starts[1], abs=1)
    page.locator("#compare-base").hover(position={"x": 700, "y": 120})
    page.mouse.wheel(0, -600)
    page.wait_for_function(f"() => ({views})()[0][0] !== {before[0][0]}", polling=50)
    after = page.evaluate(views)
    assert after[0][1] - after[0][0] < before[0][1] - before[0][0]
    for edge in (0, 1):
        assert after[0][edge] - starts[0] == pytest.approx(after[1][edge] - starts[1], abs=1)
    words = page.locator("main").inner_text()
    assert HOSTILE in words
    assert "By state and root cause" in words
    site.check()
    page.close()
