"""Reading a file: plain and gzip, whole and damaged."""

from __future__ import annotations

import gzip
import hashlib
import random
import resource
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from stallscope.collectors.importers.scanner.source import GZIP_BLOCK, PLAIN_BLOCK, TraceSource
from stallscope.profiler.recording.errors import FormatError

TEXT = b"".join(b'{"ph":"X","name":"n%d","ts":%d.%03d},\n' % (i % 91, i * 7919, i % 1000) for i in range(60000))


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes bytes to a file whose name says nothing about them."""

    def write(raw: bytes) -> Path:
        path = tmp_path / "trace.json"
        path.write_bytes(raw)
        return path

    return write


def read(path: Path) -> tuple[bytes, TraceSource]:
    source = TraceSource(path)
    return b"".join(source), source


@pytest.mark.parametrize("raw", [b"", b"x", TEXT])
@pytest.mark.parametrize("compressed", [False, True])
def test_whole_files(file: Callable[[bytes], Path], raw: bytes, compressed: bool) -> None:
    stored = gzip.compress(raw) if compressed else raw
    text, source = read(file(stored))
    assert text == raw
    assert source.damage == {}
    assert source.compressed is compressed
    assert source.size == source.bytes_read == len(stored)
    assert source.sha256 == hashlib.sha256(stored).hexdigest()


def test_iterating_again_reads_again(file: Callable[[bytes], Path]) -> None:
    stored = gzip.compress(TEXT)
    source = TraceSource(file(stored))
    assert b"".join(source) == b"".join(source) == TEXT
    assert source.sha256 == hashlib.sha256(stored).hexdigest()
    assert source.bytes_read == len(stored)


def test_progress(file: Callable[[bytes], Path]) -> None:
    seen: list[tuple[int, int]] = []
    raw = bytes(3 * PLAIN_BLOCK + 5)
    list(TraceSource(file(raw), progress=lambda done, size: seen.append((done, size))))
    assert seen == [(min((i + 1) * PLAIN_BLOCK, len(raw)), len(raw)) for i in range(4)]


def test_several_streams(file: Callable[[bytes], Path]) -> None:
    parts = [TEXT[:10], b"", TEXT[10:100000], TEXT[100000:]]
    text, source = read(file(b"".join(gzip.compress(part) for part in parts) + b"\0" * 700))
    assert text == TEXT
    assert source.damage == {}


@pytest.mark.parametrize("garbage", [b"x", b"\x1f", b"\x1f\x8b", b"not gzip" * 100000])
def test_bytes_after_the_stream(file: Callable[[bytes], Path], garbage: bytes) -> None:
    stored = gzip.compress(TEXT) + garbage
    text, source = read(file(stored))
    assert text == TEXT
    assert source.damage == {"gzip_trailing_bytes": 1}
    assert source.sha256 == hashlib.sha256(stored).hexdigest()


def decodable(stored: bytes) -> bytes:
    """All that zlib gives of a damaged stream, one byte of output at a time."""
    state = zlib.decompressobj(31)
    out = bytearray()
    while True:
        try:
            piece = state.decompress(stored, 1)
        except zlib.error:
            return bytes(out)
        if not piece:
            return bytes(out)
        out += piece
        stored = state.unconsumed_tail


def test_cut_streams(file: Callable[[bytes], Path]) -> None:
    stored = gzip.compress(TEXT)
    rng = random.Random(3)
    for cut in [
        2,
        3,
        10,
        11,
        12,
        len(stored) - 9,
        len(stored) - 8,
        len(stored) - 1,
        *rng.sample(range(len(stored)), 30),
    ]:
        text, source = read(file(stored[:cut]))
        assert TEXT.startswith(text)
        assert text == zlib.decompressobj(31).decompress(stored[:cut])
        assert source.damage == {"damaged_gzip": 1}
        assert source.sha256 == hashlib.sha256(stored[:cut]).hexdigest()


def test_corrupt_streams_give_all_that_comes_before(file: Callable[[bytes], Path]) -> None:
    short = TEXT[:150_000]
    stored = gzip.compress(short)
    rng = random.Random(4)
    for at in [10, len(stored) - 8, len(stored) - 1, *rng.sample(range(10, len(stored) - 8), 12)]:
        damaged = bytearray(stored)
        damaged[at] ^= 1 << rng.randrange(8)
        text, source = read(file(bytes(damaged)))
        least = decodable(bytes(damaged))
        # zlib keeps the byte to itself that it gave in the very call that failed.
        assert text.startswith(least)
        assert len(text) <= len(least) + 1
        assert source.damage == {"damaged_gzip": 1}
        assert source.sha256 == hashlib.sha256(damaged).hexdigest()


def test_a_hole_of_zeros_in_the_stream(file: Callable[[bytes], Path]) -> None:
    stored = gzip.compress(TEXT)
    middle = len(stored) // 2
    damaged = stored[:middle] + bytes(50_000) + stored[middle + 50_000 :]
    text, source = read(file(damaged))
    assert source.damage == {"damaged_gzip": 1}
    intact = zlib.decompressobj(31).decompress(stored[:middle])
    assert text.startswith(intact[:-300])


def test_a_bomb_does_not_fill_memory(file: Callable[[bytes], Path]) -> None:
    squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
    stored = b"".join(squeezed.compress(bytes(1 << 20)) for _ in range(400)) + squeezed.flush()
    path = file(stored)
    assert len(stored) < 1 << 20 and len(stored) > GZIP_BLOCK
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = 0
    for block in TraceSource(path):
        assert len(block) <= PLAIN_BLOCK
        total += len(block)
    assert total == 400 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 << 10


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"gone\.json cannot be read"):
        TraceSource(tmp_path / "gone.json")
    with pytest.raises(FormatError, match="cannot be read"):
        list(TraceSource(tmp_path))
