"""The distinct (category, name) pairs of a trace, and what follows from them alone.

A trace has millions of events and a few thousand distinct pairs: whatever regular expressions and text decide is
decided once for each pair, and the events carry its number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...profiler.recording.categories import CATEGORIES, DEVICE_WORK, categorize

Codes = npt.NDArray[np.int32]

DEVICE_CATEGORIES = frozenset(
    {
        "kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "gpu_user_annotation", "cuda_sync", "xpu_sync",
        "mtia_ccp_events", "collective_comm", "hpu_op", "cuda_profiler_range",
    }
)  # fmt: skip
"""The raw categories whose rows lie on a device, compared without regard to case."""

HOST, DEVICE, ASYNC = range(3)
"""Sides of a trace: a pid and tid may name a thread and, independently, a device and its stream."""

WORK, WAIT, ANNOTATION = range(3)
"""Layers of a device's track, from below."""

CATEGORY_CODE = {name: code for code, name in enumerate(CATEGORIES)}
MEMORY_NAME = "[memory]"


class Pairs:
    """Numbers the distinct (category, name) pairs of one trace.

    Args:
        strings: The texts behind the scanner's codes; may grow while batches arrive.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._number: dict[int, int] = {}
        self._name_number: dict[int, int] = {}
        self._raw_number: dict[int, int] = {}
        self.names: list[str] = []
        self.raw_categories: list[str] = []
        self._name: list[int] = []
        self._raw: list[int] = []
        self._category: list[int] = []
        self._side: list[int] = []
        self._layer: list[int] = []

    def encode(self, category: Codes, name: Codes) -> Codes:
        """The pair of each event; a name or category that is absent counts as one more value."""
        keys = (category.astype(np.int64) + 1) << 32 | (name.astype(np.int64) + 1)
        encoded = pa.array(keys).dictionary_encode()
        number = self._number
        numbers = [number[key] if key in number else self._add(key) for key in encoded.dictionary.to_numpy().tolist()]
        codes: Codes = np.array(numbers, np.int32)[encoded.indices.to_numpy()]
        return codes

    def _add(self, key: int) -> int:
        category, name = (key >> 32) - 1, (key & 0xFFFFFFFF) - 1
        raw_text = self._strings[category] if category >= 0 else ""
        name_text = self._strings[name] if name >= 0 else ""
        if name not in self._name_number:
            self._name_number[name] = len(self.names)
            self.names.append(name_text)
        if category not in self._raw_number:
            self._raw_number[category] = len(self.raw_categories)
            self.raw_categories.append(raw_text)
        label = categorize(raw_text or None, name_text)
        side = DEVICE if raw_text.lower() in DEVICE_CATEGORIES else HOST
        self._name.append(self._name_number[name])
        self._raw.append(self._raw_number[category] if raw_text else -1)
        self._category.append(CATEGORY_CODE[label])
        self._side.append(side)
        self._layer.append(_layer(side, label))
        self._number[key] = len(self._name) - 1
        return len(self._name) - 1

    def __len__(self) -> int:
        return len(self._name)

    @property
    def name(self) -> Codes:
        """For each pair the number of its name in ``names``."""
        return np.array(self._name, np.int32)

    @property
    def raw_category(self) -> Codes:
        """For each pair the number of its raw category in ``raw_categories``; -1 where the event has none."""
        return np.array(self._raw, np.int32)

    @property
    def category(self) -> npt.NDArray[np.int8]:
        """For each pair the code of its category in ``CATEGORIES``."""
        return np.array(self._category, np.int8)

    @property
    def side(self) -> npt.NDArray[np.int8]:
        """For each pair HOST or DEVICE."""
        return np.array(self._side, np.int8)

    @property
    def layer(self) -> npt.NDArray[np.int8]:
        """For each pair the layer on its track; always WORK on a host's."""
        return np.array(self._layer, np.int8)

    def in_categories(self, *labels: str) -> npt.NDArray[np.bool_]:
        """For each pair whether its category is one of these."""
        flags: npt.NDArray[np.bool_] = np.isin(self.category, [CATEGORY_CODE[label] for label in labels])
        return flags

    def named(self, *names: str) -> npt.NDArray[np.bool_]:
        """For each pair whether its name is one of these."""
        wanted = set(names)
        flags = np.array([name in wanted for name in self.names], np.bool_)
        of_pair: npt.NDArray[np.bool_] = flags[self.name] if len(self) else flags
        return of_pair

    def device_work(self) -> npt.NDArray[np.bool_]:
        """For each pair whether it keeps a device busy."""
        flags: npt.NDArray[np.bool_] = (self.side == DEVICE) & self.in_categories(*DEVICE_WORK)
        return flags


def _layer(side: int, label: str) -> int:
    if side != DEVICE or label in DEVICE_WORK:
        return WORK
    return ANNOTATION if label == "annotation" else WAIT
