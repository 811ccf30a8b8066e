"""Arrow tables as pandas DataFrames that keep integers exact."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The table as a DataFrame with numpy columns; an integer or boolean column that has nulls becomes pandas' own.

    (pandas would make floats of integers with nulls, which cannot hold a time in ns.)
    """
    return pd.DataFrame({name: _series(table.column(name)) for name in table.column_names})


def _series(column: pa.ChunkedArray) -> Any:
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        dtypes = {pa.bool_(): pd.BooleanDtype(), pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
        dtypes |= {pa.uint64(): pd.UInt64Dtype()}
        return column.to_pandas(types_mapper=dtypes.get)
    return column.to_pandas()
