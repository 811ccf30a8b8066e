"""Which call in a function's text a recorded call came from."""

from __future__ import annotations

import ast
import textwrap
import warnings

from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.call_sites import ANY, MODULE, MOST_SITES, functions_of, is_named, placed_calls

LOOP = textwrap.dedent(
    """
    @decorated
    def train(state, loader):
        model, device = state.model, state.device
        for batch in loader:
            x = batch.pin_memory().to(device)
            table = state.table.to(device)
            out = model(x)
            if out.max().item() > 9:
                out = out * 2
            loss = (
                out.square()
                .mean()
            )
            loss.backward()
            state.optimizer.step()
            state.optimizer.zero_grad()
    """
)


def lines(source: str, function: tuple[str, int], names: list[str]) -> list[int]:
    sites = functions_of(source)[function].sites
    return [sites[site].line if site >= 0 else -1 for site in placed_calls(sites, names)]


def test_calls_of_one_name_are_told_apart_by_those_around_them() -> None:
    step = ["__next__", "pin_memory", "to", "to", MODULE, "max", "item", "square", "mean", "backward", ANY, ANY]
    expected = [5, 6, 6, 7, 8, 9, 9, 12, 13, 15, 16, 17]
    assert lines(LOOP, ("train", 2), step * 3) == expected * 3
    # A recording may begin anywhere in the loop, and a branch may be taken.
    assert lines(LOOP, ("train", 2), step[5:] + step[:3]) == expected[5:] + expected[:3]
    assert lines(LOOP, ("train", 2), ["item", "mul", "square"]) == [9, 10, 12]


def test_what_is_not_in_the_text_has_no_place() -> None:
    assert lines(LOOP, ("train", 2), ["pin_memory", "isinstance", "to"]) == [6, -1, 6]
    assert lines(LOOP, ("train", 2), []) == []


def test_a_call_may_carry_the_name_of_its_module() -> None:
    source = "def f(x):\n    y = layer(x)\n    return torch.special.entr(torch.fft.fft(y))\n"
    assert lines(source, ("f", 1), [MODULE, "fft_fft", "special_entr"]) == [2, 3, 3]
    short = "def f(x):\n    y = torch.special.i0(x)\n    return torch.special.i1(y)\n"
    (sites,) = [text.sites for key, text in functions_of(short).items() if key == ("f", 1)]
    assert [[site.line for site in sites if is_named(site, name)] for name in ("special_i0", "special_i1")] == [
        [2],
        [3],
    ]


def test_a_question_for_the_truth_is_a_call() -> None:
    source = "def f(x):\n    y = x + 1\n    if y:\n        return x\n    return -x\n"
    assert lines(source, ("f", 1), ["add", "is_nonzero", "neg"]) == [2, 3, 5]


def test_innermost_loops() -> None:
    source = "def f(n):\n    for a in n:\n        for b in a:\n            b + 1\n    return [c for c in n]\n"
    assert functions_of(source)["f", 1].loops == (3, 5)


def test_texts_that_cannot_be_read_give_nothing() -> None:
    for text in ("def f(:\n", "x = '\0'", "(" * 5000, "a = " + "-" * 100_000 + "1", "x" * 3_000_000):
        assert functions_of(text) == {}


def test_a_generated_function_is_left_alone() -> None:
    source = "def f(x):\n" + "    x.a()\n" * (MOST_SITES + 5)
    assert lines(source, ("f", 1), ["a", "a"]) == [-1, -1]


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_straight_code_with_branches_is_placed_exactly(taken: list[bool]) -> None:
    body = [f"    if c{n}:\n        x.m{n % 2}()" for n in range(len(taken))]
    source = "def f(x):\n    x.begin()\n" + "\n".join(body) + "\n    x.end()\n"
    calls = ast.parse(source)
    assert calls is not None
    names = ["begin", *(f"m{n % 2}" for n, yes in enumerate(taken) if yes), "end"]
    found = lines(source, ("f", 1), names)
    assert found == sorted(found) and -1 not in found
    text = source.split("\n")
    assert all(name in text[line - 1] for name, line in zip(names, found, strict=True))


def test_a_doubtful_escape_in_the_source_is_neither_told_nor_in_the_way() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = functions_of('def f():\n    return match("\\d")\n')
    assert ("f", 1) in found
    assert not told
