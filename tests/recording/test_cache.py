"""What is derived is kept outside the recording, shared by processes, limited in size, and never trusted blindly."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from stallscope.profiler.recording.cache import DerivedCache
from stallscope.profiler.recording.cache_folder import cache_folder, evict
from stallscope.profiler.recording.content_hash import sha256_of
from stallscope.profiler.recording.errors import UsageError

TABLE = pa.table({"n": [1, 2, 3], "name": pa.array(["a", "b", "a"]).dictionary_encode()})


class Counted:
    """Computes a value and counts how often."""

    def __init__(self, value: bytes = b"value") -> None:
        self.calls = 0
        self.value = value

    def __call__(self) -> bytes:
        self.calls += 1
        return self.value


def entries() -> list[Path]:
    return [path for path in cache_folder().rglob("*") if path.is_file()]


def test_an_entry_is_computed_once(own_cache: Path) -> None:
    compute = Counted()
    for _ in range(3):
        assert DerivedCache("fingerprint").data("tiles", 1, compute) == b"value"
    assert compute.calls == 1
    assert all(path.is_relative_to(own_cache) for path in entries())


def test_content_name_version_and_parameters_each_make_another_entry() -> None:
    compute = Counted()
    DerivedCache("a").data("tiles", 1, compute)
    DerivedCache("b").data("tiles", 1, compute)
    DerivedCache("a").data("stalls", 1, compute)
    DerivedCache("a").data("tiles", 2, compute)
    DerivedCache("a").data("tiles", 1, compute, parameters={"rank": 1})
    DerivedCache("a").data("tiles", 1, compute, parameters={"rank": "1"})
    assert compute.calls == 6
    DerivedCache("a").data("tiles", 1, compute, parameters={"rank": 1})
    assert compute.calls == 6


def test_tables_come_back_as_they_were() -> None:
    for _ in range(2):
        assert DerivedCache("a").table("t", 1, lambda: TABLE).equals(TABLE)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_entry_is_computed_again(damage: str) -> None:
    DerivedCache("a").table("t", 1, lambda: TABLE)
    (entry,) = entries()
    content = bytearray(entry.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    entry.write_bytes(
        {"cut": bytes(content[:-10]), "flipped": bytes(content), "empty": b"", "other": b"x" * 99}[damage]
    )
    other = pa.table({"n": [9]})
    assert DerivedCache("a").table("t", 1, lambda: other).equals(other)
    assert DerivedCache("a").table("t", 1, lambda: TABLE).equals(other), "the rebuilt entry is kept"


def test_without_a_cache_everything_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder can be made here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compute = Counted()
    assert DerivedCache("a").data("tiles", 1, compute) == DerivedCache("a").data("tiles", 1, compute) == b"value"
    assert compute.calls == 2


def test_many_threads_get_the_same() -> None:
    value = os.urandom(200_000)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: DerivedCache("a").data("tiles", 1, lambda: value), range(64)))
    assert set(results) == {value}
    assert len(entries()) == 1


PROCESS = """
import sys
from stallscope.profiler.recording.cache import DerivedCache
for number in range(200):
    value = bytes([number % 5]) * 50_000
    assert DerivedCache("a").data("tiles", number % 5, lambda: value) == value
"""


def test_processes_share_it_without_seeing_half_an_entry() -> None:
    processes = [subprocess.Popen([sys.executable, "-c", PROCESS]) for _ in range(2)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert len(entries()) == 5


def fill(count: int, size: int, age_s: float) -> list[Path]:
    made = []
    for number in range(count):
        path = cache_folder() / "derived" / "x" / f"entry-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        used = time.time() - age_s - count + number
        os.utime(path, (used, used))
        made.append(path)
    return made


def test_the_entries_used_longest_ago_go_first() -> None:
    made = fill(10, 100, age_s=10_000)
    assert evict(cache_folder(), limit_bytes=350) == 700
    assert [path for path in made if path.exists()] == made[-3:]


def test_entries_in_use_stay_whatever_the_limit() -> None:
    made = fill(3, 100, age_s=10)
    assert evict(cache_folder(), limit_bytes=0) == 0
    assert all(path.exists() for path in made)


def test_reading_an_entry_makes_it_the_last_to_go() -> None:
    DerivedCache("a").data("tiles", 1, Counted())
    (entry,) = entries()
    os.utime(entry, (0, 0))
    DerivedCache("a").data("tiles", 1, Counted())
    assert time.time() - entry.stat().st_mtime < 60


def test_drafts_of_processes_that_died_go_after_a_day() -> None:
    old, new = fill(2, 10, age_s=0)
    drafts = [path.rename(path.with_name(f".{path.name}.tmp")) for path in (old, new)]
    os.utime(drafts[0], (time.time() - 100_000,) * 2)
    evict(cache_folder(), limit_bytes=10**9)
    assert [draft.exists() for draft in drafts] == [False, True]


def test_the_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    fill(4, 100, age_s=10_000)
    monkeypatch.setenv("STALLSCOPE_CACHE_BYTES", "200")
    assert evict(cache_folder()) == 200
    monkeypatch.setenv("STALLSCOPE_CACHE_BYTES", "much")
    with pytest.raises(UsageError, match="STALLSCOPE_CACHE_BYTES is 'much'"):
        evict(cache_folder())


def test_the_hash_of_a_file_is_remembered_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    file = tmp_path / "trace.json"
    file.write_bytes(b"one")
    os.utime(file, (time.time() - 60,) * 2)
    assert sha256_of(file) == hashlib.sha256(b"one").hexdigest()
    with monkeypatch.context() as no_reading:
        no_reading.setattr(hashlib, "file_digest", lambda *_: pytest.fail("the file was read again"))
        assert sha256_of(file) == hashlib.sha256(b"one").hexdigest()
    file.write_bytes(b"two")
    assert sha256_of(file) == hashlib.sha256(b"two").hexdigest()
