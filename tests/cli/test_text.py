"""Names from traces are hostile until they are made printable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stallscope.cli.rendering.text import name, path_end, printable, printable_lines, shortened, source_line


@given(st.text())
def test_what_is_printed_is_printable_on_one_line(text: str) -> None:
    safe = printable(text)
    assert safe.isprintable()
    if text.isprintable():
        assert safe == text


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_a_shortened_name_fits(text: str, width: int) -> None:
    assert len(shortened(text, width)) <= width
    assert len(path_end(text, max(width, 4))) <= max(width, 4)


def test_escapes_that_would_act_on_the_terminal() -> None:
    assert printable("\x1b]0;title\x07") == r"\x1b]0;title\x07"
    assert printable("a\u202eb") == r"a\u202eb"
    assert printable("\udc80") == r"\udc80"
    assert printable_lines("two\nlines\x1b[2J") == "two\nlines\\x1b[2J"


def test_both_ends_of_a_name_stay() -> None:
    assert shortened("void cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128", 30) == "void cutlass_80_t...16_256x128"
    assert name(None, 10) == "-"
    assert name("", 10) == "-"


def test_the_end_of_a_path_stays() -> None:
    assert path_end("/home/ana/project/train/loop.py", 20) == ".../train/loop.py"
    assert source_line("/home/ana/project/train/loop.py", 12, 20) == ".../train/loop.py:12"
    assert source_line("train.py", None, 20) == "train.py"
    assert source_line(None, 3, 20) == "-"
