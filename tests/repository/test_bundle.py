"""The committed bundle of the timeline is built from the committed sources, and the sources' own tests pass."""

from __future__ import annotations

import hashlib
import shutil
import subprocess

import pytest

from tests.conftest import REPOSITORY

TIMELINE = REPOSITORY / "ui" / "timeline"
BUNDLE = REPOSITORY / "ui" / "assets" / "stallscope_timeline.js"
NODE = shutil.which("node")


def test_the_bundle_was_built_from_these_sources() -> None:
    digest = hashlib.sha256()
    for source in sorted((TIMELINE / "src").glob("*.js")):
        digest.update(f"{source.name}\n".encode() + source.read_bytes())
    said = BUNDLE.read_text(encoding="utf-8").splitlines()[0].rpartition(" ")[2]
    assert said == digest.hexdigest(), "run npm run build in ui/timeline"


@pytest.mark.skipif(
    NODE is None or not (TIMELINE / "node_modules" / "esbuild").exists(), reason="no esbuild: npm ci in ui/timeline"
)
def test_building_again_gives_the_same_bundle() -> None:
    done = subprocess.run(
        [str(NODE), "build.mjs", "--check"], cwd=TIMELINE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(NODE is None, reason="no node")
def test_the_tests_in_javascript_pass() -> None:
    done = subprocess.run([str(NODE), "--test", "test/"], cwd=TIMELINE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
