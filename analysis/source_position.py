"""Which line of source a slice belongs to, and whose code that line is.

A trace names source positions in two ways: rows of Python functions that contain the ops they call, with the line of
the function's ``def`` and not the one that ran (torch.profiler's with_stack since 2022); and a call stack at an op,
with the lines that ran (its with_stack of 2021, and our own collectors). A slice belongs to the innermost frame of the
user's own code above it; where there is none, to the innermost one of a library. Work of the backward pass belongs to
the line of the forward op with the same sequence number.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .nesting import Ints, nearest
from .timeline import Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

Origin = Literal["user", "library", "runtime"]

_PYTHON_SLICE = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<function>.*)$", re.DOTALL)
_PACKAGES = re.compile(r"(?:^|/)(?:site|dist)-packages/")
_STANDARD = re.compile(r"(?:^|/)lib/python\d[^/]*/|/Lib/(?!site-packages)")
# An editable install of this package lies outside of site-packages.
_OURS = re.compile(
    r"(?:^|/)(?:collectors/live|profiler/(?:session|recording)|samples/\w+(?=/(?:device_module|process_group)))/\w+\.py$"
    r"|/bin/stallscope$"
)
_NOTEBOOK = re.compile(r"^<ipython-input|ipykernel_\d|^<stdin>|^Cell In")
_RUNTIMES = frozenset({"torch", "functorch", "torchgen", "triton", "stallscope"})
_LIBRARIES = frozenset(
    {
        "accelerate", "aiter", "apex", "bitsandbytes", "click", "clearml", "composer", "cupy", "datasets",
        "deepspeed", "diffusers", "fairscale", "fairseq", "fastai", "flash_attn", "flashinfer", "fsspec",
        "grpc", "huggingface_hub", "hydra", "ignite", "IPython", "ipykernel", "jax", "jaxlib", "joblib",
        "lightning", "lightning_fabric", "lightning_utilities", "matplotlib", "megatron", "mlflow", "mpi4py",
        "multiprocess", "numba", "numpy", "omegaconf", "onnx", "onnxruntime", "open_clip", "pandas", "peft",
        "PIL", "pluggy", "polars", "psutil", "pyarrow", "pydantic", "pytest", "pytorch_lightning", "ray",
        "regex", "requests", "safetensors", "scipy", "sentencepiece", "sklearn", "tensorboard", "tensorflow",
        "timm", "tokenizers", "torchaudio", "torchdata", "torchmetrics", "torchrec", "torchtext", "torchtune",
        "torchvision", "tqdm", "transformer_engine", "transformers", "trl", "urllib3", "uvicorn", "vllm",
        "wandb", "xformers", "yaml",
    }
)  # fmt: skip
"""Packages whose frames appear without ``site-packages``: torch.profiler cuts what is on sys.path off the front."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A function's place in the source.

    Attributes:
        file: The file as the trace writes it.
        line: The line of the ``def``; 0 where the trace gives none.
        function: The function.
        origin: "user" (own code), "library" (an installed package) or "runtime" (torch, Python's own, built-in).
    """

    file: str
    line: int
    function: str
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class RowLines:
    """Per row of a timeline the line it belongs to.

    Attributes:
        lines: The lines; ``line`` and ``stack_lines`` hold indices into them.
        line: Per row, -1 where the recording has no stack for it.
        through_backward: Rows whose line is that of the forward op.
    """

    lines: tuple[SourceLine, ...]
    line: npt.NDArray[np.int32]
    through_backward: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class StackLines:
    """The call stacks of a recording, in lines.

    Attributes:
        lines: The distinct lines; ``best`` and ``frames`` hold indices into them.
        stack_id: The stacks, by id.
        best: Per stack the innermost frame of the user's code, else of a library; -1 where it has neither.
        first: Per stack where its frames begin in ``frames``, with their number appended.
        frames: The frames of all stacks, outermost first; -1 for a frame that the recording does not describe.
    """

    lines: tuple[SourceLine, ...]
    stack_id: Ints
    best: Ints
    first: Ints
    frames: Ints

    def place(self, stack_ids: Ints) -> Ints:
        """The place of each stack id; -1 for one that is not there."""
        if not len(self.stack_id):
            return np.full(len(stack_ids), -1, dtype=np.int64)
        asked = np.flatnonzero(stack_ids >= 0)
        found = np.minimum(np.searchsorted(self.stack_id, stack_ids[asked]), len(self.stack_id) - 1)
        place = np.full(len(stack_ids), -1, dtype=np.int64)
        place[asked] = np.where(self.stack_id[found] == stack_ids[asked], found, -1)
        return place

    def lines_of(self, place: int) -> list[SourceLine]:
        """The lines of the stack at a place, outermost first, without frames that the recording does not describe."""
        codes = self.frames[int(self.first[place]) : int(self.first[place + 1])].tolist()
        return [self.lines[code] for code in codes if code >= 0]


@lru_cache(maxsize=16384)
def origin_of(file: str | None) -> Origin:
    """Whose code a file is, by its path alone.

    The user's is what lies neither in site-packages or dist-packages, nor in Python's own library, nor in torch, nor in
    what records, nor is built in. A relative path is judged by its first part, since torch.profiler cuts the folders of
    sys.path off: a user's module that shares its name with one of the standard library's counts as that.
    """
    if not file:
        return "runtime"
    if _NOTEBOOK.search(file):
        return "user"
    path = file.replace("\\", "/")
    packages = _PACKAGES.split(path)
    if len(packages) > 1:
        return "runtime" if _top(packages[-1]) in _RUNTIMES else "library"
    if path.startswith("<") or _STANDARD.search(path) or _OURS.search(path):
        return "runtime"
    if path.startswith("/") or path[1:3] == ":/":
        return "user"
    top = _top(path.removeprefix("./"))
    if top in _RUNTIMES or top in sys.stdlib_module_names:
        return "runtime"
    return "library" if top in _LIBRARIES else "user"


def row_lines(recording: Recording, rank: int) -> RowLines:
    """The line of every row of a rank's timeline; worked out once per recording."""
    return memoized(recording, ("row_lines", rank), lambda: _row_lines(recording, timeline(recording, rank)))


def stack_lines(recording: Recording) -> StackLines:
    """The lines of the recorded call stacks; worked out once per recording."""
    return memoized(recording, "stack_lines", lambda: _stack_lines(recording))


def forward_rows(t: Timeline) -> Ints:
    """For every row of the backward pass the row of the forward op that it belongs to; -1 elsewhere.

    An autograd node and the ops inside it run under ``autograd::engine::evaluate_function``, which carries the sequence
    number that the forward op had. Several forward ops may carry one number, since an op that creates no node leaves
    the counter as it is: the last of them is the one that created the node.
    """
    is_node_name = np.array([name.startswith("autograd::engine::evaluate_function") for name in t.names], dtype=bool)
    node = is_node_name[t.name] & (t.sequence >= 0) if len(t) else np.zeros(0, dtype=bool)
    node_above = nearest(t.parent, node)
    forward = np.flatnonzero((t.sequence >= 0) & (node_above < 0) & t.is_category("op", "collective"))
    forward = forward[np.lexsort((t.ts[forward], t.sequence[forward]))]
    result = np.full(len(t), -1, dtype=np.int64)
    under = np.flatnonzero(node_above >= 0)
    if not len(forward) or not len(under):
        return result
    wanted = t.sequence[node_above[under]]
    place = np.searchsorted(t.sequence[forward], wanted, side="right") - 1
    hit = (place >= 0) & (t.sequence[forward[np.maximum(place, 0)]] == wanted)
    result[under[hit]] = forward[place[hit]]
    return result


def _top(path: str) -> str:
    return path.split("/", 1)[0].removesuffix(".py")


def _row_lines(recording: Recording, t: Timeline) -> RowLines:
    stacks = stack_lines(recording)
    known = {line: code for code, line in enumerate(stacks.lines)}
    own = np.full(len(t), -1, dtype=np.int64)
    python = t.is_category("python", "gc")
    of_name = np.full(len(t.names) + 1, -1, dtype=np.int64)
    for name in np.flatnonzero(np.bincount(t.name[python], minlength=1)).tolist():
        parsed = python_line(t.names[name])
        if parsed is not None:
            of_name[name] = known.setdefault(parsed, len(known))
    own[python] = of_name[t.name[python]]
    place = stacks.place(t.stack)
    found = np.append(stacks.best, -1)[place]
    own[found >= 0] = found[found >= 0]
    everything = tuple(known)
    rank_of = {"user": 2, "library": 1, "runtime": 0}
    weight = np.array([*(rank_of[line.origin] for line in everything), -1], dtype=np.int8)[own]
    line = np.full(len(t), -1, dtype=np.int64)
    for level in (2, 1):
        above = nearest(t.parent, weight == level)
        open_rows = (line < 0) & (above >= 0)
        line[open_rows] = own[above[open_rows]]
    forward = forward_rows(t)
    borrowed = (forward >= 0) & (line[forward] >= 0)
    line[borrowed] = line[forward[borrowed]]
    return RowLines(everything, line.astype(np.int32), borrowed)


def python_line(name: str) -> SourceLine | None:
    """The place that the name of a Python slice gives: ``file.py(12): function``; None for any other name."""
    match = _PYTHON_SLICE.match(name)
    if match is None:
        return None
    file = match["file"]
    return SourceLine(file, int(match["line"]), match["function"], origin_of(file))


def _stack_lines(recording: Recording) -> StackLines:
    frames = recording.table("frames").sort_by("frame_id")
    known: dict[SourceLine, int] = {}
    code_of_frame = [
        known.setdefault(SourceLine(file or "", line or 0, function or "", origin_of(file)), len(known))
        for file, line, function in zip(*(frames[c].to_pylist() for c in ("file", "line", "function")), strict=True)
    ]
    stacks = recording.table("stacks").sort_by("stack_id")
    lists = stacks["frame_ids"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) and lists.num_chunks else lists
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    flat = pc.list_flatten(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    frame_ids = frames["frame_id"].to_numpy().astype(np.int64)
    place = np.minimum(np.searchsorted(frame_ids, flat), max(len(frame_ids) - 1, 0))
    hit = np.append(frame_ids, -1)[place] == flat
    codes = np.where(hit, np.array([*code_of_frame, -1], dtype=np.int64)[place], -1)
    first = np.append(0, np.cumsum(lengths)).astype(np.int64)
    lines = tuple(known)
    return StackLines(
        lines, stacks["stack_id"].to_numpy().astype(np.int64), _best_frames(lines, codes, first), first, codes
    )


def _best_frames(lines: tuple[SourceLine, ...], codes: Ints, first: Ints) -> Ints:
    """Per stack its innermost frame of the user's code, else of a library's; -1 where it has neither."""
    best = np.full(len(first) - 1, -1, dtype=np.int64)
    stack = np.repeat(np.arange(len(first) - 1), np.diff(first))
    for origin in ("library", "user"):
        mine = np.array([*(line.origin == origin for line in lines), False], dtype=bool)[codes]
        best[stack[mine]] = codes[mine]  # the last assignment, of the innermost frame, stays
    return best
