"""Arrays made buffer by buffer are those that pyarrow makes, without its import of pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope.profiler.recording.arrow_arrays import array_of, array_of_numbers, numbers_of

NAME = pa.dictionary(pa.int32(), pa.string())
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    NAME: st.text(st.sampled_from("abé\U0001f525"), max_size=2),
    pa.list_(pa.int64()): st.lists(st.integers(-9, 9), max_size=4),
}


@pytest.mark.parametrize("wanted", VALUES, ids=str)
@settings(deadline=None)  # the first call imports pandas, for pyarrow's twin
@given(data=st.data())
def test_array_of_is_what_pyarrow_makes(wanted: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[wanted], max_size=20))
    made = array_of(values, wanted)
    made.validate(full=True)
    assert made.type == wanted
    assert made.null_count == sum(value is None for value in values)
    assert made.to_pylist() == values == pa.array(values, wanted).to_pylist()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1.5, pa.int64()), ("1", pa.int64()), (2**63, pa.int64()), (2**31, pa.int32()), (-1, pa.uint64()),
        ("1.5", pa.float64()), (b"a", pa.string()), (7, NAME), ("\ud800", pa.string()), (1, pa.bool_()),
        ([1.5], pa.list_(pa.int64())), (3, pa.list_(pa.int64())),
    ],
)  # fmt: skip
def test_nothing_is_rounded_parsed_or_wrapped(value: Any, wanted: pa.DataType) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        array_of([value], wanted)


def test_lists_may_be_arrays() -> None:
    made = array_of([np.array([1, 2]), None, ()], pa.list_(pa.int64()))
    assert made.to_pylist() == [[1, 2], None, []]


@given(st.lists(st.lists(st.none() | st.integers(-9, 9), max_size=9), max_size=4), st.integers(0, 3))
def test_numbers_of_reads_slices_chunks_and_nulls(chunks: list[list[int | None]], skipped: int) -> None:
    column = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks], pa.int64()).slice(skipped)
    assert numbers_of(column, -100).tolist() == [-100 if v is None else v for v in column.to_pylist()]


@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans())))
def test_array_of_numbers_puts_nulls_where_it_is_told(pairs: list[tuple[int, bool]]) -> None:
    numbers = np.array([number for number, _ in pairs], dtype=np.int32)
    valid = np.array([is_valid for _, is_valid in pairs], dtype=bool)
    made = array_of_numbers(numbers, valid)
    made.validate(full=True)
    assert made.type == pa.int32()
    assert made.to_pylist() == [number if is_valid else None for number, is_valid in pairs]
    assert array_of_numbers(valid).to_pylist() == valid.tolist()


RECORDS = """
import sys, time
import stallscope
with stallscope.profile(sys.argv[1], detail="always") as prof:
    for _ in range(5):
        prof.step()
        with prof.annotate("x"):
            time.sleep(0.02)
print("pandas" in sys.modules)
"""


def test_recording_does_not_import_pandas(tmp_path: Any) -> None:
    ran = subprocess.run([sys.executable, "-c", RECORDS, tmp_path / "r"], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n", ran.stderr
