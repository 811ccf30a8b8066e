"""The bytes of a trace file: plain or gzip, told by content, whole or damaged."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ....profiler.recording.errors import FormatError

GZIP_MAGIC = b"\x1f\x8b"
PLAIN_BLOCK = 1 << 20
GZIP_BLOCK = 1 << 16
"""Compressed bytes read at once. A block may hold a thousand times as many bytes, so these are taken out in pieces."""

_GZIP_WINDOW = 31  # 16: gzip header and trailer; 15: the largest window.


class TraceSource:
    """The decompressed bytes of one file, in blocks; iterating reads the file once more from its beginning.

    A gzip stream that ends early or is corrupt gives every byte that can be decompressed before that. Several streams
    one after the other are read as one. Memory is bounded whatever the file claims to decompress to.

    Attributes:
        path: The file.
        size: Its bytes on disk.
        compressed: Whether it is gzip; known once iteration began.
        bytes_read: How many of its bytes on disk have been read.
        damage: Kind (``damaged_gzip``, ``gzip_trailing_bytes``) -> 1; complete at the end.
    """

    def __init__(self, path: Path, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Prepares to read.

        Args:
            path: The file.
            progress: Called with ``bytes_read`` and ``size`` after each block of the file on disk.

        Raises:
            FormatError: The file is not there.
        """
        self.path = path
        self.compressed = False
        self.bytes_read = 0
        self.damage: dict[str, int] = {}
        self._progress = progress
        self._hash = hashlib.sha256()
        try:
            self.size = path.stat().st_size
        except OSError as error:
            raise self._unreadable(error) from error

    @property
    def sha256(self) -> str:
        """The hash of the file on disk, as hexadecimal text; of what has been read so far before the end."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        """Yields the decompressed bytes.

        Raises:
            FormatError: The file cannot be read.
        """
        self.bytes_read = 0
        self.damage = {}
        self._hash = hashlib.sha256()
        try:
            with self.path.open("rb") as stream:
                self.compressed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
                stream.seek(0)
                blocks = self._read(stream.read)
                yield from self._decompress(blocks) if self.compressed else blocks
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> FormatError:
        return FormatError(f"{self.path} cannot be read: {error.strerror or error}.")

    def _read(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        """Yields the file on disk, and keeps count and hash."""
        while block := read(GZIP_BLOCK if self.compressed else PLAIN_BLOCK):
            self.bytes_read += len(block)
            self._hash.update(block)
            if self._progress is not None:
                self._progress(self.bytes_read, self.size)
            yield block

    def _decompress(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        member = _Member()
        members = 0
        for block in blocks:
            left = block
            while left and not member.broken:
                if member.ended:
                    left = left.lstrip(b"\0")  # Streams may be padded with zeros.
                    if not left:
                        break
                    member = _Member()
                    members += 1
                yield from member.decompress(left)
                left = member.left
        if member.broken or not member.ended:
            kind = "gzip_trailing_bytes" if members and not member.has_output else "damaged_gzip"
            self.damage[kind] = 1


class _Member:
    """One gzip stream of the file.

    Attributes:
        ended: Whether it is complete.
        broken: Whether it cannot be read any further.
        has_output: Whether it gave any byte.
        left: What follows it in the last block, once it is complete.
    """

    def __init__(self) -> None:
        self.broken = self.has_output = False
        self.left = b""
        self._state = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def ended(self) -> bool:
        return self._state.eof

    def decompress(self, block: bytes) -> Iterator[bytes]:
        """Yields what a block adds, in pieces; where it breaks, all that comes before."""
        while True:
            before = self._state.copy()
            try:
                piece = self._state.decompress(block, PLAIN_BLOCK)
            except zlib.error:
                self.broken = True
                for piece in _salvage(before, block):
                    self.has_output = True
                    yield piece
                return
            if piece:
                self.has_output = True
                yield piece
            block = self._state.unconsumed_tail
            if self._state.eof or (not block and len(piece) < PLAIN_BLOCK):
                self.left = self._state.unused_data
                return


def _salvage(state: zlib._Decompress, block: bytes) -> Iterator[bytes]:
    """Yields what a block gives before its error, but for one byte at most; zlib throws that away.

    Halves the block down to the byte with the error, and takes out what comes before byte by byte.
    """
    while len(block) > 1:
        half = block[: len(block) // 2]
        trial = state.copy()
        try:
            piece = trial.decompress(half)
        except zlib.error:
            block = half
            continue
        if piece:
            yield piece
        state = trial
        block = block[len(half) :]
    while True:
        try:
            piece = state.decompress(block, 1)
        except zlib.error:
            return
        if not piece:
            return
        yield piece
        block = state.unconsumed_tail
