"""Columns of a result table in which a value can be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


def nullable_ints(values: npt.ArrayLike, known: npt.ArrayLike) -> pd.Series[Any]:
    """A column of type Int64: the values where they are known, null elsewhere."""
    missing = ~np.asarray(known, dtype=np.bool_)
    return pd.Series(pd.arrays.IntegerArray(np.array(values, dtype=np.int64), missing))


def nullable_floats(values: npt.ArrayLike, known: npt.ArrayLike) -> pd.Series[Any]:
    """A column of type Float64: the values where they are known, null elsewhere."""
    missing = ~np.asarray(known, dtype=np.bool_)
    return pd.Series(pd.arrays.FloatingArray(np.where(missing, 0.0, np.asarray(values, dtype=np.float64)), missing))


def texts(choices: Sequence[str | None], code: npt.NDArray[Any]) -> pd.Series[Any]:
    """A column of type string: the choice that each code names, null where the code is negative or the choice is."""
    table = np.array([*choices, None], dtype=object)
    return pd.Series(pd.array(table[np.where(code < 0, len(choices), code)], dtype="string"))
