"""Random forests of nested slices for property tests, and slow twins to hold the fast code against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st


@dataclass
class Forest:
    """Rows sorted as a recording sorts them: parents before children, siblings by start."""

    starts: np.ndarray
    ends: np.ndarray
    parent: np.ndarray
    depth: np.ndarray

    def ancestors(self, row: int) -> list[int]:
        """The rows above, innermost first."""
        found = []
        while self.parent[row] >= 0:
            row = int(self.parent[row])
            found.append(row)
        return found


def forest_of(spans: list[tuple[int, int]]) -> Forest:
    """Nests spans that do not partly overlap: each goes under the innermost earlier one that contains it."""
    rows = sorted(spans, key=lambda span: (span[0], -span[1]))
    parent, depth, open_rows = [], [], []
    for start, end in rows:
        while open_rows and (rows[open_rows[-1]][1] < end or rows[open_rows[-1]][1] <= start < end):
            open_rows.pop()
        parent.append(open_rows[-1] if open_rows else -1)
        depth.append(len(open_rows))
        open_rows.append(len(parent) - 1)
    columns = [np.array(c, dtype=np.int64) for c in (zip(*rows, strict=True) if rows else ((), ()))]
    return Forest(columns[0], columns[1], np.array(parent, dtype=np.int64), np.array(depth, dtype=np.int64))


@st.composite
def forests(draw: st.DrawFn, most: int = 40) -> Forest:
    """A forest in which a row is placed inside an earlier row or after the last root."""
    rows: list[tuple[int, int]] = []
    cursor: list[int] = []
    last = 0
    for _ in range(draw(st.integers(0, most))):
        room = [i for i, (_, end) in enumerate(rows) if cursor[i] <= end]
        host = draw(st.sampled_from([*room, None]))
        if host is None:
            start = last + draw(st.integers(0, 5))
            end = start + draw(st.integers(0, 60))
            last = end
        else:
            start = draw(st.integers(cursor[host], rows[host][1]))
            end = draw(st.integers(start, rows[host][1]))
            cursor[host] = end
        rows.append((start, end))
        cursor.append(start)
    return forest_of(rows)
