"""The places in a function's source from which something is called, in the order in which they run.

A trace with Python stacks says which function called what, one call after the other, but not on which line. The text of
the function says on which lines calls stand. ``placed_calls`` lays the one beside the other: calls come in the order
of the source, branches are left out, loops begin again.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

LONGEST_SOURCE = 2_000_000
"""Characters; nobody writes a longer file by hand."""

MOST_SITES = 400
"""A function with more call sites than this is generated, and left alone."""

ANY, MODULE = "*", "*module"
"""Names of calls that do not show what was called: a wrapper, which may stand for anything, and a module."""

_SKIPPED, _MOST_SKIPPED, _BEGINS_AGAIN, _NO_WAY = 0.02, 0.8, 0.3, 6.0
_LEAST_END = 3
_UNPLACED, _UNNAMED, _ALIAS, _OTHER_NAME = 2.5, 0.4, 2.0, 8.0

_OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("add", "add_"), ast.Sub: ("sub", "sub_", "rsub"), ast.Mult: ("mul", "mul_"), ast.Div: ("div", "div_"),
    ast.FloorDiv: ("floor_divide",), ast.Mod: ("remainder",), ast.MatMult: ("matmul",), ast.Pow: ("pow", "pow_"),
    ast.USub: ("neg",), ast.Invert: ("bitwise_not",), ast.BitAnd: ("bitwise_and", "__and__"),
    ast.BitOr: ("bitwise_or", "__or__"), ast.Lt: ("lt",), ast.LtE: ("le",), ast.Gt: ("gt",), ast.GtE: ("ge",),
    ast.Eq: ("eq",), ast.NotEq: ("ne",),
}  # fmt: skip
_SUBSCRIPT = ("slice", "select", "index", "index_put_", "copy_", "__getitem__", "__setitem__")
_TRUTH = ("is_nonzero", "item")


@dataclass(frozen=True, slots=True)
class Site:
    """One place from which something is called.

    Attributes:
        names: Names that the call can have in a trace.
        line: The line that runs.
        loops: Numbers of the loops around it, outermost first.
        open: Whether the name is that of a variable, an attribute or a class, which may hold anything.
    """

    names: frozenset[str]
    line: int
    loops: tuple[int, ...]
    open: bool = False


@dataclass(frozen=True, slots=True)
class FunctionText:
    """A function as it stands in the source.

    Attributes:
        first: The line of its ``def``, or of its first decorator: what a trace gives.
        last: Its last line.
        sites: Its call sites in the order in which they run.
        loops: The lines of its innermost loops.
    """

    first: int
    last: int
    sites: tuple[Site, ...]
    loops: tuple[int, ...] = ()


def functions_of(text: str) -> dict[tuple[str, int], FunctionText]:
    """The functions in a file by name and first line; empty where the text is not Python of this version."""
    if len(text) > LONGEST_SOURCE:
        return {}
    try:
        with warnings.catch_warnings():  # of a doubtful escape in somebody's string: not what is asked here
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        found = {("<module>", 0): _text_of(0, text.count("\n") + 1, tree.body)}
        for node in ast.walk(tree):
            name, body = _function(node)
            if body:
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])  # type: ignore[attr-defined]
                last = getattr(node, "end_lineno", None) or first
                found[name, first] = _text_of(first, last, body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return found


def _function(node: ast.AST) -> tuple[str, list[ast.AST]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name, list(node.body)
    if isinstance(node, ast.Lambda):
        return "<lambda>", [node.body]
    for kind, name in ((ast.ListComp, "<listcomp>"), (ast.SetComp, "<setcomp>"), (ast.GeneratorExp, "<genexpr>")):
        if isinstance(node, kind):
            return name, [node]
    return ("<dictcomp>", [node]) if isinstance(node, ast.DictComp) else ("", [])


def _text_of(first: int, last: int, body: Sequence[ast.AST]) -> FunctionText:
    walk = _Walk()
    for node in body:
        walk.visit(node)
    return FunctionText(first, last, tuple(walk.found[: MOST_SITES + 1]), tuple(walk.innermost))


@dataclass
class _Walk:
    """Goes through statements in the order in which they run and notes calls."""

    found: list[Site] = field(default_factory=list)
    loops: tuple[int, ...] = ()
    innermost: list[int] = field(default_factory=list)
    _loop_count: int = 0

    def visit(self, node: ast.AST) -> None:
        """One statement or expression with all that is in it."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            for decorator in getattr(node, "decorator_list", ()):
                self.visit(decorator)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.visit(node.iter)
            self._note(node.lineno, ("__iter__",))
            self._loop(node.lineno, ("__next__",), [*node.body, *node.orelse])
        elif isinstance(node, ast.While):
            self._loop(node.lineno, _TRUTH, [node.test, *node.body])
        elif isinstance(node, ast.With | ast.AsyncWith):
            self._with(node)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self._comprehension(node)
        else:
            for child in _in_order(node):
                self.visit(child)
            self._own(node)

    def _own(self, node: ast.AST) -> None:
        """What the node itself calls, once its parts are there."""
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, _Truth):
            self._note(line, _TRUTH)
        elif isinstance(node, ast.BinOp | ast.AugAssign | ast.UnaryOp) and type(node.op) in _OPERATORS:
            self._note(line, _OPERATORS[type(node.op)])
        elif isinstance(node, ast.Compare):
            for operator in node.ops:
                self._note(line, _OPERATORS.get(type(operator), ()))
        elif isinstance(node, ast.Subscript):
            self._note(line, _SUBSCRIPT)

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            # Of a chain over several lines the line of the method's name runs.
            self._note(node.func.end_lineno or node.lineno, _names_of(node.func), is_open=_may_hold(node.func))
        elif isinstance(node.func, ast.Name):
            self._note(node.lineno, (node.func.id,), is_open=True)
        else:
            self._note(node.lineno, (), is_open=True)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            self._note(item.context_expr.lineno, ("__enter__",))
        for statement in node.body:
            self.visit(statement)
        self._note(node.lineno, ("__exit__",))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self.visit(node.generators[0].iter)
        inner: list[ast.AST] = [test for generator in node.generators for test in generator.ifs]
        inner += [generator.iter for generator in node.generators[1:]]
        inner += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._loop(node.lineno, ("__next__",), inner)

    def _loop(self, line: int, names: tuple[str, ...], body: Sequence[ast.AST]) -> None:
        self._loop_count += 1
        around, self.loops = self.loops, (*self.loops, self._loop_count)
        inside = len(self.innermost)
        self._note(line, names)
        for node in body:
            self.visit(node)
        if len(self.innermost) == inside:
            self.innermost.append(line)
        self.loops = around

    def _note(self, line: int, names: tuple[str, ...], *, is_open: bool = False) -> None:
        if names or is_open:
            more = ("__init__", "__new__") if is_open and names and names[0][:1].isupper() else ()
            self.found.append(Site(frozenset((*names, *more)), line, self.loops, is_open))


def _names_of(node: ast.Attribute) -> tuple[str, ...]:
    """What a call of an attribute is called in a trace: torch names ``torch.special.i0`` ``special_i0``."""
    around = getattr(node.value, "attr", None) or getattr(node.value, "id", None)
    return (node.attr, f"{around}_{node.attr}") if around else (node.attr,)


def _may_hold(node: ast.Attribute) -> bool:
    """Whether an attribute's name is likely to be that of a module: ``self.layer``, ``model.head``, not ``x.to``."""
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in the order in which they are worked out; the test of a condition asks for its truth."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        yield from [node.value] if node.value is not None else []
        yield from node.targets if isinstance(node, ast.Assign) else [node.target]
        return
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(node, ast.If | ast.IfExp | ast.Assert) and child is node.test:
            yield _Truth(getattr(child, "lineno", 0))


class _Truth(ast.AST):
    """Stands for the question whether a value is true."""

    def __init__(self, lineno: int) -> None:
        super().__init__()
        self.lineno = lineno


def placed_calls(sites: Sequence[Site], names: Sequence[str]) -> list[int]:
    """Which site each of the calls of one run of a function came from.

    The cheapest way through the sites is taken: forwards, over sites that did not call anything, and back to an earlier
    site only inside a loop around both.

    Args:
        sites: Of the function.
        names: What was called, in the order of time; ``ANY`` or ``MODULE`` for what has no name of its own.

    Returns:
        Per call the index of its site; -1 for a call that fits nowhere. Where no site has the name of a call, it is
        placed at one that may hold any function.
    """
    if not sites or len(sites) > MOST_SITES or not names:
        return [-1] * len(names)
    moves, fits = _moves(sites), {name: _fit(sites, name) for name in set(names)}
    cost = _first_move(len(sites))
    came = np.zeros((len(names), len(sites)), dtype=np.int16)
    placed = np.zeros((len(names), len(sites)), dtype=bool)
    for number, name in enumerate(names):
        reached = cost[:, None] + moves
        came[number] = reached.argmin(axis=0)
        by_move = reached.min(axis=0) + fits[name]
        by_staying = cost[1:] + _UNPLACED
        placed[number] = by_move <= by_staying
        before = cost[0] + _UNPLACED
        cost = np.concatenate([[before], np.where(placed[number], by_move, by_staying)])
    return _way_back(cost, came, placed)


def _way_back(cost: npt.NDArray[np.float64], came: npt.NDArray[np.int16], placed: npt.NDArray[np.bool_]) -> list[int]:
    result = [-1] * len(came)
    at = int(cost.argmin()) - 1
    for number in range(len(came) - 1, -1, -1):
        if at < 0:
            break
        if placed[number, at]:
            result[number] = at
            at = int(came[number, at]) - 1
    return result


def _first_move(count: int) -> npt.NDArray[np.float64]:
    """The cost of standing before all sites (0), and at each of them before any call.

    A function may have been running when the recording began: it then starts anywhere, for the price of a loop.
    """
    return np.concatenate([[0.0], np.full(count, _BEGINS_AGAIN * 2)])


def _moves(sites: Sequence[Site]) -> npt.NDArray[np.float64]:
    """The cost of going from each site (row, with the beginning before them) to each other (column)."""
    count = len(sites)
    ahead = np.arange(count)[None, :] - np.arange(-1, count)[:, None]
    cost = np.where(ahead > 0, np.minimum(_SKIPPED * (ahead - 1), _MOST_SKIPPED), _NO_WAY)
    for loop in {loop for site in sites for loop in site.loops}:
        inside = np.array([number for number, site in enumerate(sites) if loop in site.loops])
        first, last = inside[0], inside[-1]
        around = np.minimum(_SKIPPED * ((last - inside)[:, None] + (inside - first)[None, :]), _MOST_SKIPPED)
        block = np.ix_(inside + 1, inside)
        cost[block] = np.where(ahead[block] > 0, cost[block], np.minimum(cost[block], _BEGINS_AGAIN + around))
    return cost


def _fit(sites: Sequence[Site], name: str) -> npt.NDArray[np.float64]:
    """How badly a call of that name fits each site."""
    if name in (ANY, MODULE):
        closed = _UNNAMED * (1.25 if name == ANY else 3)
        return np.array([_UNNAMED if site.open else closed for site in sites])
    known = any(is_named(site, name) for site in sites)
    other = [_OTHER_NAME if known or not site.open else _ALIAS for site in sites]
    return np.array([0.0 if is_named(site, name) else cost for site, cost in zip(sites, other, strict=True)])


def is_named(site: Site, name: str) -> bool:
    """Whether a call of that name can come from the site by its name: ``torch.special.entr`` calls ``special_entr``."""
    return name in site.names or any(len(one) >= _LEAST_END and name.endswith("_" + one) for one in site.names)
