"""Lines that an edit moved and files that another machine has elsewhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.compare import compare
from stallscope.analysis.compare_lines import NOWHERE, same_files, same_lines
from tests.analysis.measured_runs import MS, kernel, run

PLACES = st.tuples(
    st.sampled_from(["a/x.py", "b/x.py", "x.py", "c/a/x.py", "y.py"]),
    st.integers(1, 4),
    st.sampled_from(["f", "g", ""]),
)


def test_the_same_path_is_the_same_file() -> None:
    assert same_files(["/a/train.py"], ["/a/train.py", "/b/train.py"]) == {
        "/a/train.py": "/a/train.py",
        "/b/train.py": "/b/train.py",
    }


def test_a_file_elsewhere_is_told_by_the_folders_it_ends_in() -> None:
    base = ["/home/ana/job/models/net.py", "/home/ana/job/data/net.py"]
    new = ["/builds/7/models/net.py", "/builds/7/data/net.py", "/builds/7/other.py"]
    assert same_files(base, new) == {new[0]: base[0], new[1]: base[1], new[2]: new[2]}


def test_a_file_that_could_be_two_is_neither() -> None:
    assert same_files(["/a/x.py", "/b/x.py"], ["/c/x.py"]) == {"/c/x.py": "/c/x.py"}
    assert same_files(["/a/x.py"], ["/b/x.py", "/c/x.py"]) == {"/b/x.py": "/b/x.py", "/c/x.py": "/c/x.py"}


def test_lines_that_moved_within_their_function_are_taken_in_order() -> None:
    base = [("t.py", 10, "f"), ("t.py", 20, "f"), ("t.py", 30, "g")]
    new = [("t.py", 12, "f"), ("t.py", 22, "f"), ("t.py", 30, "g")]
    assert same_lines(base, new) == dict(zip(new, base, strict=True))


def test_lines_are_not_guessed_where_their_number_differs() -> None:
    base, new = [("t.py", 10, "f")], [("t.py", 12, "f"), ("t.py", 14, "f")]
    assert same_lines(base, new) == {place: place for place in new}


@given(st.lists(PLACES), st.lists(PLACES))
def test_no_two_lines_are_taken_for_one(base: list[tuple[str, int, str]], new: list[tuple[str, int, str]]) -> None:
    same = same_lines([NOWHERE, *base], [NOWHERE, *new])
    assert set(same) == {NOWHERE, *new}
    assert len(set(same.values())) == len(same)
    assert same[NOWHERE] == NOWHERE
    files = dict(zip(new, same_files_of(base, new), strict=True))
    for place in new:
        file, line, function = files[place], place[1], place[2]
        if same[place] not in base:
            assert same[place] in ((file, line, function), (file, -1 - line, function))
        elif (file, line, function) in base and same[place] != (file, line, function):
            # It is another line although it could be the one of its number: most lines moved together.
            here = {one[1] for one in new if (files[one], one[2]) == (file, function)}
            there = {one[1] for one in base if (one[0], one[2]) == (file, function)}
            together = max(len(here & {old + shift for old in there}) for shift in (-3, -2, -1, 1, 2, 3))
            assert together >= 2 * max(len(here & there), 1)


def same_files_of(base: list[tuple[str, int, str]], new: list[tuple[str, int, str]]) -> list[str]:
    file_of = same_files([place[0] for place in base], [place[0] for place in new])
    return [file_of[place[0]] for place in new]


def test_a_new_line_with_the_number_of_one_that_moved_is_a_line_of_its_own() -> None:
    base = [("t.py", line, "f") for line in (2, 4)]
    new = [("t.py", line, "f") for line in (1, 2, 3)]
    assert same_lines(base, new) == {new[0]: base[0], new[1]: ("t.py", -3, "f"), new[2]: base[1]}
    ns = {1: 5 * MS, 2: 7 * MS, 3: 6 * MS}
    before = run([9 * MS], places={("stall", "input", "t.py", line, "f"): line * MS for line in (2, 4)})
    after = run([18 * MS], places={("stall", "input", "t.py", line, "f"): took for line, took in ns.items()})
    rows = {row.line: (row.base_line, row.base_ns, row.new_ns) for row in compare([before], [after]).places}
    assert rows == {1: (2, 2 * MS, 5 * MS), 2: (None, 0, 7 * MS), 3: (4, 4 * MS, 6 * MS)}


def test_a_moved_line_is_one_row_with_both_numbers() -> None:
    base = run([9 * MS], places={("stall", "input", "/a/train.py", 10, "loop"): 4 * MS})
    new = run([9 * MS], places={("stall", "input", "/b/train.py", 14, "loop"): 3 * MS})
    (row,) = compare([base], [new]).places
    assert (row.file, row.line, row.base_line, row.difference_ns) == ("/b/train.py", 14, 10, -1 * MS)


def test_host_time_of_a_line_that_moved_is_one_row_too() -> None:
    rows = [kernel(f"/{where}/job/train.py:{line}", detail="loop", host_ns=ns) for where, line, ns in
            (("a", 10, 400), ("b", 14, 300))]  # fmt: skip
    unknown = kernel("", host_ns=50)
    found = compare([run([MS], lines=(rows[0], unknown))], [run([MS], lines=(rows[1], unknown))]).lines
    assert [(row.name, row.change, row.base_host_ns, row.new_host_ns) for row in found] == [
        ("/b/job/train.py:14", "time", 400, 300),
        ("", "same", 50, 50),
    ]


def test_lines_that_all_moved_by_as_much_are_the_same_even_where_a_number_is_on_both_sides() -> None:
    base = [("train.py", line, "train") for line in (62, 64, 65)]
    new = [("train.py", line, "train") for line in (60, 64, 66, 67)]
    assert {place[1]: old[1] for place, old in same_lines(base, new).items()} == {60: 60, 64: 62, 66: 64, 67: 65}


def test_lines_that_did_not_move_stay_themselves_though_others_come_and_go() -> None:
    base = [("train.py", line, "train") for line in (10, 12, 14)]
    new = [("train.py", line, "train") for line in (12, 14, 16)]
    assert {place[1]: old[1] for place, old in same_lines(base, new).items()} == {12: 12, 14: 14, 16: 10}
