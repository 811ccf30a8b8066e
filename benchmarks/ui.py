"""What the timeline in the browser costs at 1, 5, 20 and 50 million slices.

    python benchmarks/ui.py [--millions 1,5,20,50] [--folder FOLDER] [--quick] [--json]

For each size a recording is made (kept in FOLDER, and used again), then measured:

* first open: working out the tile index and the devices' states, in a process of its own;
* open: the same the next time, CPU-seconds without the imports, and the most resident memory of the process;
* tiles: CPU time of one request for the tiles of a dozen tracks, from the whole recording down to microseconds;
* frame: the interval between animation frames in headless Chromium (``--disable-gpu``, 1600x1000) while zooming in,
  panning and zooming out with held keys, as a ratio to a page with nothing but a canvas, shown just before;
* first paint: from the navigation to the first complete frame, of a page that was shown before;
* server: the most memory that was resident, and the most of its own and of mapped files, which the system takes back
  when it wants them; the three need not be at the same moment, and files are looked at every 20 ms;
* heap: of the page after 100 and after 500 turns of the wheel, after a collection of garbage.

Needs playwright (``pip install playwright``) and Chromium on the path; without them the browser's columns stay empty.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from ui_recording import write_recording

FRAMES = 90
TURNS = 500
TRACKS_AT_ONCE = 12
_BLANK = """<body style="margin:0"><canvas width=1600 height=1000></canvas></body>"""
_FRAMES = """count => new Promise(done => {
    const context = document.querySelector("canvas").getContext("2d"), intervals = [];
    const blank = !document.querySelector(".timeline");
    let before = 0;
    const tick = now => {
        if (before) intervals.push(now - before);
        before = now;
        if (blank) context.clearRect(0, 0, 1600, 1000);
        if (intervals.length < count) requestAnimationFrame(tick); else done(intervals);
    };
    requestAnimationFrame(tick);
})"""
_FIRST_PAINT = """new MutationObserver(() => {
    if (!window.painted && document.querySelector(".timeline[data-ready]")) window.painted = performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-ready"] });"""


def measured(*arguments: str, cache: Path) -> dict[str, Any]:
    """What this program says when it is run in a process of its own with these arguments."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([sys.executable, __file__, *arguments], env=environment, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def opening(path: Path) -> dict[str, float]:
    """Opens a recording as the timeline's page does, in this process."""
    from stallscope.profiler.recording.reader import open_recording
    from stallscope.ui.served import Served
    from stallscope.ui.timeline_meta import timeline_meta

    began, cpu = time.perf_counter(), time.process_time()
    served = Served(open_recording(path), path.name)
    json.dumps(timeline_meta(served.tracks))
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "slices": len(served.index),
    }


def tiles(path: Path, requests: int) -> dict[str, float]:
    """CPU time of requests for tiles at every zoom, in this process, with the route and all."""
    from stallscope.profiler.recording.reader import open_recording
    from stallscope.ui.app import create_app
    from stallscope.ui.served import Served

    recording = open_recording(path)
    served = Served(recording, path.name)
    client = create_app([(recording, path.name)], port=8050).server.test_client()
    most = len(served.index.tracks) + len(served.bands.devices)
    tracks = ",".join(str(n) for n in np.linspace(0, most - 1, TRACKS_AT_ONCE).astype(int))
    span = served.extent[1] - served.extent[0]
    whole = max(0, int(np.log2(span / 1024)))
    random = np.random.default_rng(3)
    spent = []
    for turn in range(requests):
        level = max(4, whole - turn % (whole - 3))
        index = int(random.integers(0, span // (1024 << level) + 1))
        began = time.process_time()
        asked = f"/data/{served.key}/tiles?level={level}&index={index}&tracks={tracks}"
        answer = client.get(asked, base_url="http://127.0.0.1:8050", buffered=True)
        spent.append(1000 * (time.process_time() - began))
        assert answer.status_code == 200, answer.text
    spent = spent[3:]  # the first ones import and map
    return {
        "tile_ms": statistics.median(spent),
        "tile_p95_ms": float(np.percentile(spent, 95)),
        "tile_most_ms": max(spent),
    }


def browsing(path: Path, cache: Path, turns: int) -> dict[str, float]:
    """Frames, first paint and heap of the page in Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("no playwright or no chromium: the browser is left out", file=sys.stderr)
        return {}
    command = [sys.executable, "-m", "stallscope.cli", "ui", str(path), "--port", "0", "--no-browser"]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
            assert address is not None
            with sync_playwright() as playwright, Resident(server.pid) as resident:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
                found = _browsed(browser, f"{address[0]}/?view=timeline", turns)
                browser.close()
            names = {"VmHWM": "server_mb", "RssAnon": "server_own_mb", "RssFile": "server_mapped_mb"}
            return found | {names[name]: kb / 1024 for name, kb in resident.most.items()}
        finally:
            server.terminate()


class Resident(threading.Thread):
    """Watches how much memory of a process is resident: ``most`` of each line of its status, in KiB."""

    def __init__(self, process_id: int) -> None:
        super().__init__(daemon=True)
        self.most = dict.fromkeys(("VmHWM", "RssAnon", "RssFile"), 0)
        self._status = Path(f"/proc/{process_id}/status")
        self._done = threading.Event()

    def run(self) -> None:
        """Looks until told to stop."""
        while not self._done.wait(0.02):
            self._look()

    def _look(self) -> None:
        said = dict(line.split(":", 1) for line in self._status.read_text().splitlines())
        self.most = {name: max(most, int(said[name].split()[0])) for name, most in self.most.items()}

    def __enter__(self) -> Resident:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()
        self._look()


def _browsed(browser: Any, address: str, turns: int) -> dict[str, float]:
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.set_content(_BLANK)
    blank = page.evaluate(_FRAMES, FRAMES)
    page.add_init_script(_FIRST_PAINT)
    paints = []
    for _ in range(3):
        page.goto(address)
        page.wait_for_selector(".timeline[data-ready]", timeout=300_000)
        paints.append(page.evaluate("window.painted"))
    page.locator(".timeline").focus()
    frames = []
    for key in ("w", "d", "s"):
        page.mouse.move(900, 300)
        page.keyboard.down(key)
        frames += page.evaluate(_FRAMES, FRAMES)
        page.keyboard.up(key)
    unit = statistics.median(blank)
    early = _heap_after(page, min(100, turns))
    late = _heap_after(page, turns - min(100, turns))
    return {
        "blank_ms": unit,
        "frame_median": statistics.median(frames) / unit,
        "frame_p95": float(np.percentile(frames, 95)) / unit,
        "first_paint_cold_ms": paints[0],
        "first_paint_ms": min(paints[1:]),
        "heap_early_mb": early,
        "heap_late_mb": late,
    }


def _heap_after(page: Any, turns: int) -> float:
    """MB of the page's heap after some turns of the wheel: twenty in, twenty out, each time at another place."""
    for turn in range(turns):
        if turn % 20 == 0:
            page.mouse.move(400 + turn * 37 % 1000, 300)
        page.mouse.wheel(0, -240 if turn % 40 < 20 else 240)
    page.wait_for_timeout(500)
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    session.detach()
    return float(used)


def measure(slices: int, folder: Path, quick: bool) -> dict[str, float]:
    """Everything about one size."""
    path, cache = folder / f"recording_{slices}", folder / "cache"
    if not path.exists():
        write_recording(path, slices, ranks=8 if slices > 30_000_000 else 4)
    key = cache / "stallscope" / "tiles"
    shutil.rmtree(key, ignore_errors=True)
    first = measured("--open", str(path), cache=cache)
    again = measured("--open", str(path), cache=cache)
    row = {"slices": again["slices"], "first_open_cpu_s": first["cpu_s"], "first_open_mb": first["peak_mb"]}
    row |= {"open_cpu_s": again["cpu_s"], "open_s": again["wall_s"], "open_mb": again["peak_mb"]}
    row |= measured("--tiles", str(path), "--requests", "60" if quick else "400", cache=cache)
    return row | browsing(path, cache, 40 if quick else TURNS)


def shown(row: dict[str, float]) -> str:
    """One row of the table."""
    cells = [
        f"{row['slices'] / 1e6:.1f} M",
        f"{row['first_open_cpu_s']:.1f} s, {row['first_open_mb']:,.0f} MB",
        f"{row['open_cpu_s']:.2f} s, {row['open_mb']:,.0f} MB",
        f"{row['tile_ms']:.1f} / {row['tile_p95_ms']:.1f} / {row['tile_most_ms']:.1f} ms",
    ]
    if "blank_ms" in row:
        cells += [
            f"{row['frame_median']:.2f} / {row['frame_p95']:.2f}",
            f"{row['first_paint_cold_ms']:,.0f} / {row['first_paint_ms']:,.0f} ms",
            f"{row['heap_early_mb']:.1f} / {row['heap_late_mb']:.1f} MB",
            f"{row['server_mb']:,.0f} / {row['server_own_mb']:,.0f} / {row['server_mapped_mb']:,.0f} MB",
        ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", default="1,5,20,50", help="sizes, in millions of slices")
    parser.add_argument("--folder", type=Path, help="where recordings are kept; a temporary one otherwise")
    parser.add_argument("--quick", action="store_true", help="one small recording and few turns")
    parser.add_argument("--json", action="store_true")
    for name, kind in (("--open", Path), ("--tiles", Path), ("--requests", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open or options.tiles:
        print(json.dumps(opening(options.open) if options.open else tiles(options.tiles, options.requests)))
        return
    sizes = [200_000] if options.quick else [int(float(text) * 1e6) for text in options.millions.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        rows = [measure(slices, folder, options.quick) for slices in sizes]
    if options.json:
        print(json.dumps(rows))
        return
    print(
        "| slices | first open: CPU, peak | open: CPU, peak | 12 tiles: median / p95 / most | frame: median / p95 | ",
        end="",
    )
    print("first paint: cold / warm | heap: 100 / 500 turns | server: peak / own / mapped |\n" + "|---" * 8 + "|")
    for row in rows:
        print(shown(row))


if __name__ == "__main__":
    main()
