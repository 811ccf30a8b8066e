"""Arrow arrays from Python's values, and numpy's from Arrow, without pandas.

pyarrow's own ``array`` and ``to_numpy`` import pandas when they are first called. In a process that trains that takes a
second of the interpreter, so whatever a recording writes while it is made is converted here, buffer by buffer as the
Arrow columnar format lays them out (https://arrow.apache.org/docs/format/Columnar.html).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[Any]]


def array_of(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """An array of the wanted type; None is null.

    Args:
        values: Python's or numpy's scalars; lists of integers for a list type.
        wanted: A type of ``columns``: whole numbers, float64, bool, text, a dictionary of text, or a list of int64.

    Raises:
        TypeError: A value is of another type; nothing is rounded or parsed.
        ValueError: Text that is not Unicode.
        OverflowError: A number does not fit.
    """
    if pa.types.is_dictionary(wanted):
        return _dictionary(values, wanted)
    if pa.types.is_string(wanted):
        return _text(values)
    if pa.types.is_list(wanted):
        return _lists(values, wanted)
    if pa.types.is_boolean(wanted):
        bits = _bits([_truth(value) for value in values])
        return pa.Array.from_buffers(wanted, len(values), [_validity(values), bits])
    return _numbers(values, wanted)


def numbers_of(column: pa.ChunkedArray | pa.Array, null: int = 0) -> Numbers:
    """The values of an integer column, copied, with ``null`` in the place of each null."""
    plain = np.dtype(str(column.type))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_numbers_of_chunk(chunk, plain, null) for chunk in chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.empty(0, plain)


def _numbers_of_chunk(chunk: pa.Array, plain: np.dtype[Any], null: int) -> Numbers:
    validity, stored = chunk.buffers()
    numbers: Numbers = np.frombuffer(stored, plain, count=len(chunk), offset=chunk.offset * plain.itemsize)
    if not chunk.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), count=chunk.offset + len(chunk), bitorder="little")
    return np.where(bits[chunk.offset :], numbers, plain.type(null))


def array_of_numbers(values: Numbers, valid: Numbers | None = None) -> pa.Array:
    """An Arrow array of a contiguous numpy one.

    Args:
        values: Numbers or truth values.
        valid: Which are not null; None: all.
    """
    validity = None if valid is None or bool(valid.all()) else _bits(valid)
    if values.dtype == bool:
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, _bits(values)])
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def _numbers(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    plain = _number if pa.types.is_floating(wanted) else _index
    numbers = np.array([0 if value is None else plain(value) for value in values], dtype=np.dtype(_numpy_name(wanted)))
    return pa.Array.from_buffers(wanted, len(values), [_validity(values), pa.py_buffer(numbers)])


def _numpy_name(wanted: pa.DataType) -> str:
    return "float64" if pa.types.is_float64(wanted) else str(wanted)


_index: Callable[[Any], int] = operator.index


def _number(value: Any) -> float:
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{value!r} is not a number")


def _truth(value: Any) -> bool:
    if value is None or isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"{value!r} is neither true nor false")


def _encoded(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"{value!r} is not text")


def _text(values: Sequence[Any]) -> pa.Array:
    encoded = [b"" if value is None else _encoded(value) for value in values]
    return pa.Array.from_buffers(
        pa.string(), len(values), [_validity(values), _offsets(encoded), pa.py_buffer(b"".join(encoded))]
    )


def _dictionary(values: Sequence[Any], wanted: pa.DictionaryType) -> pa.Array:
    codes: dict[Any, int] = {}
    coded = [None if value is None else codes.setdefault(value, len(codes)) for value in values]
    indices = _numbers(coded, wanted.index_type)
    return pa.DictionaryArray.from_arrays(indices, array_of(list(codes), wanted.value_type))


def _lists(values: Sequence[Any], wanted: pa.ListType) -> pa.Array:
    items = [() if value is None else value for value in values]
    inner = array_of(list(chain.from_iterable(items)), wanted.value_type)
    return pa.Array.from_buffers(wanted, len(values), [_validity(values), _offsets(items)], children=[inner])


def _offsets(items: Sequence[Any]) -> pa.Buffer:
    """Where each item begins and the last one ends.

    Raises:
        OverflowError: Together they are longer than 32 bits count.
    """
    return pa.py_buffer(np.array(list(accumulate(map(len, items), initial=0)), dtype=np.int32))


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    valid = [value is not None for value in values]  # by identity: an array in a list is equal to nothing in particular
    return None if all(valid) else _bits(valid)


def _bits(truths: Any) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.asarray(truths, dtype=bool), bitorder="little"))
