"""A copy of a recording that can be shared: no file names, hosts, users, arguments, environment or source text.

What stays is the shape of the run: times, ops, kernels, sizes, stacks with the names of functions. Every file of the
user's becomes ``file-0001.py``, the same in each rank; files of installed packages keep their path below the package.
"""

from __future__ import annotations

import getpass
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ...profiler.recording.schema import TABLES
from ...profiler.recording.writer import RankWriter, RecordingWriter

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording

LEFT_OUT = ("sources",)
"""Tables that are not copied."""

KEPT_FIELDS = ("local_rank", "steps", "status", "attempt_of", "import")
"""Fields of rank.json that are copied, besides the states of collectors."""

KEPT_IDENTITY = ("platform", "python", "versions")

_PACKAGE = re.compile(r"^.*?(?:site-packages|dist-packages|lib/python3\.\d+)/")
_PATH = re.compile(
    r"(?:[A-Za-z]:)?(?:[\\/][\w.\-+@ ]+){2,}|\b[\w.\-+@]+(?:/[\w.\-+@]+)*\.(?:py|ipynb|json|pt|pth|ckpt)\b"
)
_SUFFIX = re.compile(r"\.\w{1,6}$")
_HOME = re.compile(r"(?:/home|/Users|/root|C:\\Users)(?:[\\/][\w.\-]+)?")


class Aliases:
    """What stands for each name that must not be seen; the same name gets the same alias everywhere in a recording.

    Args:
        hosts: The hosts' names.
        users: Names of users.
    """

    def __init__(self, hosts: list[str], users: list[str]) -> None:
        self._files: dict[str, str] = {}
        words = {host: f"host-{number}" for number, host in enumerate(sorted(set(hosts)))}
        words |= {user: f"user-{number}" for number, user in enumerate(sorted(set(users)))}
        self._hosts = words
        self._words = {word: alias for word, alias in words.items() if len(word) > 2}
        listed = sorted(self._words, key=len, reverse=True)
        self._word = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in listed)) if listed else None

    def file(self, path: str) -> str:
        """The alias of a file; one of an installed package or of Python keeps its path below that."""
        inside = _PACKAGE.sub("", path)
        if inside != path:
            return inside
        if path.startswith("<"):
            return path
        if path not in self._files:
            suffix = _SUFFIX.search(path)
            self._files[path] = f"file-{len(self._files) + 1:04d}{suffix[0] if suffix else ''}"
        return self._files[path]

    def host(self, name: str) -> str:
        """The alias of a host."""
        return self._hosts.get(name, "host")

    def text(self, text: str) -> str:
        """A text with every path, host and user in it replaced."""
        replaced = _PATH.sub(lambda found: self._path_in_text(found[0]), text)
        return self._word.sub(lambda found: self._words[found[0]], replaced) if self._word else replaced

    def _path_in_text(self, path: str) -> str:
        if path.startswith(("torch/", "aten/")):
            return path
        return self.file(path)


def redact_recording(recording: Recording, output: Path, *, force: bool = False) -> dict[str, int]:
    """Writes a copy without what tells who made it, where and from which files; returns the rows of each table.

    Args:
        recording: Where from; segments that were not converted yet are.
        output: The folder to write.
        force: Replace a recording that is there.

    Raises:
        CaptureError: The output cannot be written, or holds something else.
    """
    aliases = Aliases(*_names_in(recording))
    rows: dict[str, int] = {}
    identity = {key: value for key, value in recording.identity.items() if key in KEPT_IDENTITY}
    settings = {name: told for name, told in (recording.info.get("settings") or {}).items() if name != "step_by"}
    with RecordingWriter.create(
        output, world_size=recording.info.get("world_size"), settings=settings, identity=identity, force=force,
    ) as writer:  # fmt: skip
        for rank in recording.ranks:
            with writer.rank(rank) as rank_writer:
                for name in TABLES:
                    if name not in LEFT_OUT:
                        table = redacted_table(name, recording.table(name, ranks=rank), aliases)
                        rank_writer.append(name, table)
                        rows[name] = rows.get(name, 0) + table.num_rows
                _close(rank_writer, recording.rank_info(rank))
    return rows


def _names_in(recording: Recording) -> tuple[list[str], list[str]]:
    hosts = [host for host in recording.table("processes", columns=["host"])["host"].to_pylist() if host]
    hosts += [str(recording.identity["host"])] if recording.identity.get("host") else []
    hosts += [
        str(info["writer"]["host"]) for rank in recording.ranks if (info := recording.rank_info(rank)).get("writer")
    ]
    users = [Path(found).name for found in _homes(recording)]
    try:
        users.append(getpass.getuser())
    except (KeyError, OSError, ImportError):
        users.append("root")
    return hosts, [user for user in users if user not in ("root", "home", "Users")]


def _homes(recording: Recording) -> set[str]:
    files = recording.table("frames", columns=["file"])["file"].drop_null().unique().to_pylist()
    return {found[0] for file in files if (found := _HOME.match(file))}


def redacted_table(name: str, table: pa.Table, aliases: Aliases) -> pa.Table:
    """The table with every text in it passed through the aliases; text that repeats is looked at once."""
    for position, field in enumerate(table.schema):
        column = table.column(position)
        text = _ALIASED.get((name, field.name), Aliases.text).__get__(aliases)
        if pa.types.is_dictionary(field.type):
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, _mapped(chunk.dictionary, text))
                for chunk in column.unify_dictionaries().chunks
            ]
            column = pa.chunked_array(chunks, type=pa.dictionary(pa.int32(), pa.string()))
        elif pa.types.is_string(field.type):
            unique = column.combine_chunks().dictionary_encode()
            column = pc.take(_mapped(unique.dictionary, text), unique.indices)
        else:
            continue
        if name == "segments" and field.name == "sha256":
            column = pa.nulls(table.num_rows, pa.string())
        table = table.set_column(position, field.name, column)
    return table


_ALIASED = {
    ("frames", "file"): Aliases.file,
    ("segments", "raw_file"): Aliases.file,
    ("processes", "host"): Aliases.host,
}
"""Columns that are a name as a whole; in all others names are looked for in the text."""


def _mapped(values: pa.Array, text: Any) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in values.to_pylist()], pa.string())


def _close(writer: RankWriter, source: dict[str, Any]) -> None:
    kept = {key: source[key] for key in KEPT_FIELDS if key in source and key != "status"}
    if isinstance(kept.get("import"), dict):
        file = str(kept["import"].get("file", ""))
        kept["import"] = {**kept["import"], "file": hashlib.sha256(file.encode()).hexdigest()[:12], "sha256": None}
    states = {
        name: {key: told.get(key) for key in ("state", "cost_ns", "calls")}
        for name, told in (source.get("collectors") or {}).items()
        if isinstance(told, dict)
    }
    writer.close(
        "failed" if source.get("status") == "failed" else "completed", collectors=states, redacted=True, **kept
    )
