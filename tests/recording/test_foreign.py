"""Traces of other tools: an importer is found, its result is kept, and shared, and rebuilt where it is damaged."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stallscope.profiler.recording import foreign
from stallscope.profiler.recording.cache_folder import cache_folder
from stallscope.profiler.recording.errors import CaptureError, FormatError
from stallscope.profiler.recording.foreign import import_into
from stallscope.profiler.recording.reader import open_recording
from stallscope.profiler.recording.writer import RecordingWriter

from .builders import slices


class LineImporter:
    """Reads files that start with LINES; each file is a rank with as many slices as the number in it."""

    name = "lines"
    version = 1
    imports = 0

    def sniff(self, head: bytes, file_name: str) -> str | None:
        return None if head.startswith(b"LINES") else f"it starts with {head[:5]!r}, not LINES"

    def import_files(self, paths: list[Path], writer: RecordingWriter, progress: Any) -> None:
        type(self).imports += 1
        for rank, path in enumerate(paths):
            content = path.read_bytes()
            text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
            count = int(text.split()[1])
            if count < 0:
                raise FormatError(f"{path}: {count} is no count.")
            with writer.rank(rank) as rows:
                rows.append("slices", slices(count, rank=rank))
        if progress is not None:
            progress("reading", 1.0)


@pytest.fixture(autouse=True)
def importer(monkeypatch: pytest.MonkeyPatch) -> type[LineImporter]:
    class Fresh(LineImporter):
        imports = 0

    entries = [
        SimpleNamespace(name="lines", load=lambda: Fresh),
        SimpleNamespace(name="broken", load=lambda: pytest.importorskip("builtins").no_such_name),
    ]
    monkeypatch.setattr(foreign, "entry_points", lambda group: entries)
    return Fresh


def trace(path: Path, count: int) -> Path:
    path.write_text(f"LINES {count}")
    return path


def test_a_trace_is_imported_once_and_opened_from_the_cache(tmp_path: Path, importer: type[LineImporter]) -> None:
    file = trace(tmp_path / "a.txt", 5)
    told: list[Any] = []
    recording = open_recording(file, progress=lambda *what: told.append(what))
    assert recording.table("slices").num_rows == 5
    assert recording.info["label"] == "a.txt"
    assert recording.path.is_relative_to(cache_folder())
    assert told == [("reading", 1.0)]
    assert open_recording(str(file)).path == recording.path
    assert importer.imports == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_content_version_and_rules_each_make_another_import(
    tmp_path: Path, importer: type[LineImporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = trace(tmp_path / "a.txt", 5)
    paths = {open_recording(file).path}
    trace(file, 6)
    paths.add(open_recording(file).path)
    monkeypatch.setattr(importer, "version", 2)
    paths.add(open_recording(file).path)
    monkeypatch.setattr(foreign, "rules_fingerprint", lambda: "other rules")
    paths.add(open_recording(file).path)
    assert len(paths) == importer.imports == 4


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(gzip.compress(b"LINES 7"))
    assert open_recording(file).table("slices").num_rows == 7


def test_several_files_or_a_folder_are_the_ranks_of_one_recording(tmp_path: Path) -> None:
    files = [trace(tmp_path / f"rank{rank}.txt", rank + 1) for rank in range(3)]
    (tmp_path / "notes.md").write_text("not a trace")
    for recording in (open_recording(files), open_recording(tmp_path)):
        assert recording.ranks == (0, 1, 2)
        assert [recording.table("slices", ranks=rank).num_rows for rank in range(3)] == [1, 2, 3]


def test_a_file_that_no_importer_reads_says_why_each_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(FormatError, match=r"lines: a\.txt: it starts with b'hello', not LINES") as raised:
        open_recording(tmp_path / "a.txt")
    assert "broken cannot be loaded" in raised.value.message


def test_one_file_of_a_list_that_is_no_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("hello")
    with pytest.raises(FormatError, match=r"lines: b\.txt"):
        open_recording([trace(tmp_path / "a.txt", 1), tmp_path / "b.txt"])


def test_an_empty_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no files"):
        open_recording(tmp_path)


def test_a_failed_import_leaves_nothing_and_is_tried_again(tmp_path: Path, importer: type[LineImporter]) -> None:
    file = trace(tmp_path / "a.txt", -1)
    for _ in range(2):
        with pytest.raises(FormatError, match="-1 is no count"):
            open_recording(file)
    assert importer.imports == 2
    assert not list((cache_folder() / "imported").iterdir())


@pytest.mark.parametrize("damage", ["cut", "gone", "no manifest"])
def test_a_damaged_import_is_rebuilt(tmp_path: Path, importer: type[LineImporter], damage: str) -> None:
    file = trace(tmp_path / "a.txt", 5)
    first = open_recording(file)
    part = first.files("slices")[0]
    if damage == "cut":
        part.write_bytes(part.read_bytes()[:50])
    elif damage == "gone":
        part.unlink()
    else:
        (first.path / "import.json").unlink()
    again = open_recording(file)
    assert again.table("slices").num_rows == 5
    assert (again.path, importer.imports) == (first.path, 2)


def test_two_imports_at_once_both_get_the_recording(tmp_path: Path, importer: type[LineImporter]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    file = trace(tmp_path / "a.txt", 50)
    with ThreadPoolExecutor(4) as pool:
        recordings = list(pool.map(lambda _: open_recording(file), range(8)))
    assert {recording.path for recording in recordings} == {recordings[0].path}
    assert all(recording.table("slices").num_rows == 50 for recording in recordings)
    assert len(list((cache_folder() / "imported").iterdir())) == 1


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CaptureError, match=r"cannot be imported into .*Set XDG_CACHE_HOME"):
        open_recording(trace(tmp_path / "a.txt", 1))


def test_an_import_into_a_folder_of_ones_own(tmp_path: Path) -> None:
    file = trace(tmp_path / "a.txt", 5)
    import_into([file], tmp_path / "mine", label="kept")
    assert open_recording(tmp_path / "mine").info["label"] == "kept"
    with pytest.raises(CaptureError, match="of another run"):
        import_into([file], tmp_path / "mine")
    import_into([file], tmp_path / "mine", force=True)
    assert open_recording(tmp_path / "mine").table("slices").num_rows == 5
