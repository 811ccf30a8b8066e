"""Tables and bars: exact widths, whatever is in the cells."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stallscope.cli.rendering.bars import FILLS, cells, legend, state_bar
from stallscope.cli.rendering.page import Page, page
from stallscope.cli.rendering.tables import Cell, name_column, number_column, print_table, table_lines
from stallscope.cli.rendering.text import printable

PARTS = st.dictionaries(st.sampled_from(sorted(FILLS)), st.integers(min_value=0, max_value=10**15))


@given(PARTS, st.integers(min_value=0, max_value=200))
def test_the_cells_of_a_bar_sum_to_its_width(parts: dict[str, int], width: int) -> None:
    given_cells = cells(parts, width)
    whole = sum(parts.values())
    assert sum(given_cells.values()) == (width if whole else 0)
    for state, part in parts.items():
        assert whole == 0 or abs(given_cells[state] - part * width / whole) < 1


def test_a_bar_reads_without_colour_and_without_unicode() -> None:
    parts = {"compute": 5, "communication": 2, "data_movement": 1, "stall": 2}
    assert state_bar(parts, 10, unicode=False).plain == "#####==-.."
    assert state_bar(parts, 10, unicode=True).plain == "█████▓▓▒░░"
    lines = legend({"compute": 3, "stall": 1}, unicode=False, width=80)
    assert [line.plain for line in lines] == ["# compute 75.0 % 3 ns   . stall 25.0 % 1 ns"]
    lines = legend({"compute": 3, "stall": 1}, unicode=False, width=30)
    assert [line.plain for line in lines] == ["# compute 75.0 % 3 ns", ". stall 25.0 % 1 ns"]


@given(st.lists(st.tuples(st.text(), st.text(), st.integers(0, 10**9)), max_size=5))
def test_no_line_of_a_table_is_wider_than_the_page(rows: list[tuple[str, str, int]]) -> None:
    columns = [name_column("kernel", weight=2), name_column("op"), number_column("calls")]
    lines = table_lines(columns, [(printable(a), printable(b), str(n)) for a, b, n in rows], 60)
    assert len(lines) == len(rows) + 1
    assert all(cell_len(line.plain) <= 60 for line in lines)


def test_names_give_way_and_numbers_do_not() -> None:
    columns = [name_column("name"), number_column("total")]
    heading, row = table_lines(columns, [("x" * 80, Cell("1.23 ms", "red"))], 40)
    assert heading.plain.endswith("  total")
    assert row.plain.endswith("xxx  1.23 ms")
    assert "..." in row.plain
    assert len(row.plain) == 40


def test_a_page_that_is_no_terminal_has_no_escape_sequences() -> None:
    stream = io.StringIO()
    out = page(stream)
    assert out.width == 100
    out.heading("Title [bold]not markup[/bold]", "note")
    print_table(out, [name_column("a")], [("[red]x[/red] :smile:",)])
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "[bold]not markup[/bold]" in text
    assert "[red]x[/red] :smile:" in text


def test_a_long_text_is_not_wrapped() -> None:
    stream = io.StringIO()
    out = page(stream)
    assert isinstance(out, Page)
    out.print("y" * 300)
    assert stream.getvalue() == "y" * 300 + "\n"
