"""Makes the pictures of docs/images from recordings of samples/demo_training.py.

    python docs/screenshots.py [--before RECORDING --after RECORDING] [--work FOLDER] [--folder FOLDER]

Without recordings it makes them first: the demo as it is, and the same with its mistakes corrected (``--fixed``). The
pictures show the folder that was recorded in: ``demo`` in the system's temporary folder, or the one after ``--work``.
Needs playwright and Chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SIZE = {"width": 1280, "height": 720}


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the address's query, what to wait for, and what to do before it is taken, and of which part."""

    name: str
    query: str
    ready: str
    theme: str = "dark"
    act: Callable[[Any], None] = lambda page: None
    part: str = "body"


def _pick_longest_stall(page: Any) -> None:
    """From the stalls of a step to the timeline, at the longest one."""
    page.locator("#stall-grid .ag-row").first.click()
    page.wait_for_selector(".timeline[data-ready]")
    page.wait_for_selector("#details h2")


PICTURES = (
    Picture("overview", "view=overview", ".chart .barlayer"),
    Picture("timeline", "view=stalls&step=12", "#stall-grid .ag-row", act=_pick_longest_stall),
    Picture("stalls", "view=stalls", "#stall-grid .ag-row", theme="light"),
    Picture("dependencies", "view=dependencies", ".graph-box"),
    Picture("source", "view=source", ".code tr.costliest", theme="light", part=".columns > .section:last-child"),
    Picture("compare", "view=compare&recording={after}&base={before}", "#compare-new[data-ready]"),
)


def record(folder: Path, name: str, *options: str) -> Path:
    """A recording of the demo, made now, of a copy in ``folder``: pictures show where a script lies."""
    script = shutil.copy(ROOT / "samples" / "demo_training.py", folder / "train.py")
    command = [sys.executable, "-m", "stallscope.cli", "record", "--force", "--label", name, "-o", name, script]
    subprocess.run([*command, *options], check=True, cwd=folder)
    return folder / name


def take(before: Path, after: Path, folder: Path) -> None:
    """Serves the two recordings and takes every picture."""
    from playwright.sync_api import sync_playwright

    from stallscope.profiler.recording.reader import open_recording

    keys = {name: open_recording(path).fingerprint[:16] for name, path in (("before", before), ("after", after))}
    command = [sys.executable, "-m", "stallscope.cli", "ui", str(before), str(after), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        found = None
        while found is None:
            found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        for picture in PICTURES:
            page = chromium.new_page(viewport=SIZE, color_scheme=picture.theme)
            query = picture.query if "recording=" in picture.query else f"recording={{before}}&{picture.query}"
            page.goto(f"{found[0]}/?{query.format(**keys)}")
            page.wait_for_selector(picture.ready, state="attached", timeout=180_000)
            picture.act(page)
            page.wait_for_timeout(1500)
            page.locator(picture.part).screenshot(path=folder / f"{picture.name}.png")
            page.close()
        chromium.close()
        server.terminate()


def main() -> None:
    """Takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a recording of the demo")
    parser.add_argument("--after", type=Path, help="a recording of the demo with --fixed")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "demo", help="where the demo is recorded"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    ours = not options.work.exists()
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        before = options.before or record(options.work, "as written")
        after = options.after or record(options.work, "mistakes corrected", "--fixed")
        take(before, after, options.folder)
    finally:
        if ours:
            shutil.rmtree(options.work)


if __name__ == "__main__":
    main()
