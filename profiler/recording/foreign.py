"""Traces of other tools: found an importer for, imported once into the cache, and opened from there ever after."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from .cache_folder import cache_folder, evict, mark_used
from .categories import rules_fingerprint
from .content_hash import sha256_of
from .errors import CaptureError, FormatError
from .layout import RECORDING_FILE
from .parquet_files import temporary_name, write_atomically
from .schema import SCHEMA_VERSION
from .writer import RecordingWriter

IMPORTER_GROUP = "stallscope.importers"
"""The entry-point group under which importers register."""

HEAD_BYTES = 65_536
"""How much of a file an importer sees before it says whether it can read it."""

_MANIFEST = "import.json"

Progress = Callable[[str, float | None], None]
"""Called during an import with what is being done and the share that is done (0..1; None: not known)."""


class Importer(Protocol):
    """What an entry point of the group ``stallscope.importers`` names: a class to be called without arguments.

    Attributes:
        name: Its name, as in messages and rank.json.
        version: Raised whenever it would read the same file differently.
    """

    name: str
    version: int

    def sniff(self, head: bytes, file_name: str) -> str | None:
        """Whether it reads such a file: None if it does, else why not.

        Args:
            head: The first HEAD_BYTES of the file, decompressed if it is gzip.
            file_name: The file's name, which may lie about the content.
        """

    def import_files(self, paths: list[Path], writer: RecordingWriter, progress: Progress | None) -> None:
        """Writes the files as the ranks of one recording."""


def imported(paths: Sequence[Path], progress: Progress | None = None) -> Path:
    """The recording in the cache that holds these traces; imported now if it is not there.

    The entry is keyed by the content and names of the files, the schema, the importer with its version and the rule
    table. Two processes that import the same trace at once both get it; one of the two results is kept.

    Raises:
        FormatError: No importer reads them, or the traces cannot belong together.
        CaptureError: The cache cannot be written.
    """
    importer, files = find_importer(paths)
    identity = {
        "files": [[file.name, sha256_of(file)] for file in files],
        "schema_version": SCHEMA_VERSION,
        "importer": importer.name,
        "importer_version": importer.version,
        "rules": rules_fingerprint(),
    }
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
    home = cache_folder() / "imported"
    entry = home / key
    if _is_whole(entry):
        mark_used(entry)
        return entry
    draft = temporary_name(entry)
    try:
        home.mkdir(parents=True, exist_ok=True)
        _import(importer, files, draft, None, progress, force=False)
        write_atomically(draft / _MANIFEST, json.dumps(_manifest(draft) | identity).encode())
        _keep(draft, entry)
    except OSError as error:
        raise CaptureError(
            f"the trace cannot be imported into {home}: {error.strerror or error}.",
            hint="Set XDG_CACHE_HOME to a folder that can be written and has space.",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    evict(cache_folder())
    return entry


def import_into(
    paths: Sequence[Path],
    folder: Path,
    *,
    label: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> None:
    """Imports traces as a recording of the user's own, in a folder of their choice.

    Args:
        paths: Trace files, or one folder of them, as the ranks of one recording.
        folder: Where the recording goes.
        label: What to call it.
        force: Replace another recording in that folder.
        progress: Told how far the import is.

    Raises:
        FormatError: No importer reads them.
        CaptureError: The folder holds something else, or cannot be written.
    """
    importer, files = find_importer(paths)
    _import(importer, files, folder, label, progress, force=force)


def find_importer(paths: Sequence[Path]) -> tuple[Importer, list[Path]]:
    """The importer that reads the files, and the files; in a folder, those that it reads.

    Raises:
        FormatError: No importer reads them all; the message lists which were tried and why each refused.
    """
    is_folder = len(paths) == 1 and paths[0].is_dir()
    files = sorted(path for path in paths[0].iterdir() if path.is_file()) if is_folder else list(paths)
    if not files:
        raise FormatError(f"{paths[0]} is neither a recording nor a folder of traces: it holds no files.")
    heads = {file: _head(file) for file in files}
    refusals: list[str] = []
    for importer in _importers(refusals):
        answers = {file: importer.sniff(heads[file], file.name) for file in files}
        mine = [file for file, refusal in answers.items() if refusal is None]
        if mine and (is_folder or len(mine) == len(files)):
            return importer, mine
        file, reason = next((file, refusal) for file, refusal in answers.items() if refusal is not None)
        refusals.append(f"{importer.name}: {file.name}: {reason}")
    tried = "; ".join(refusals) or "no importer is installed"
    raise FormatError(f"{paths[0]} is neither a recording nor a trace that can be read ({tried}).")


def _importers(problems: list[str]) -> list[Importer]:
    """Every importer that is installed; one that cannot be loaded becomes a problem, not a failure."""
    found: list[Importer] = []
    for entry_point in sorted(entry_points(group=IMPORTER_GROUP), key=lambda entry: entry.name):
        try:
            found.append(entry_point.load()())
        except Exception as error:  # noqa: BLE001 - whatever a third party's plug-in raises
            problems.append(f"{entry_point.name} cannot be loaded: {error}")
    return found


def _import(
    importer: Importer,
    files: list[Path],
    folder: Path,
    label: str | None,
    progress: Progress | None,
    *,
    force: bool,
) -> None:
    """Imports into the folder; what was written before a failure is marked failed."""
    with RecordingWriter.create(folder, label=label or _label(files), force=force) as writer:
        importer.import_files(files, writer, progress)


def _label(files: Sequence[Path]) -> str:
    return files[0].name if len(files) == 1 else f"{files[0].parent.name or files[0].name} ({len(files)} files)"


def _head(file: Path) -> bytes:
    """The file's first bytes, decompressed if it is gzip; as much as can be, where it is damaged."""
    try:
        with file.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror or error}.") from error
    if not head.startswith(b"\x1f\x8b"):
        return head
    try:
        return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return head


def _manifest(folder: Path) -> dict[str, dict[str, int]]:
    """Every file of an import with its size, so that a damaged entry is told from a whole one without reading it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {"sizes": {str(path.relative_to(folder)): path.stat().st_size for path in files}}


def _is_whole(entry: Path) -> bool:
    try:
        sizes = json.loads((entry / _MANIFEST).read_bytes())["sizes"]
        return RECORDING_FILE in sizes and all((entry / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _keep(draft: Path, entry: Path) -> None:
    """Renames a finished import to its entry; one that another process has put there meanwhile stays."""
    if entry.exists() and not _is_whole(entry):
        shutil.rmtree(entry, ignore_errors=True)
    try:
        draft.rename(entry)
    except OSError:
        if not _is_whole(entry):
            raise
