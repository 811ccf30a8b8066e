"""Taking demangled C++ names apart: parameters, templates, lambdas, namespaces."""

from __future__ import annotations

import re

_ANONYMOUS = "(anonymous namespace)"
_PAIRS = {"(": ")", "<": ">", "{": "}", "[": "]"}
_MARKS = re.compile(r"[][(){}<>, ]")
_LAMBDA_TYPES = re.compile(r"\{lambda\(([^()]*)\)#\d+\}")


def drop_signature(name: str) -> str:
    """The name without return type and parameters: ``void f<int>(float*)`` gives ``f<int>``."""
    name = name.replace(_ANONYMOUS, "anonymous")
    depths = _depths(name)
    end = next((at for at, depth in depths if name[at] == "(" and depth == 0), len(name))
    spaces = [at for at, depth in depths if name[at] == " " and depth == 0 and at < end]
    return name[spaces[-1] + 1 if spaces else 0 : end] or name


def split_template(name: str) -> tuple[str, list[str], str]:
    """What stands before the template arguments, these, and what follows: ``a<b, c>::d`` gives a, [b, c], d."""
    opening = next((position for position, depth in _depths(name) if name[position] == "<" and depth == 0), None)
    if opening is None:
        return name, [], ""
    closing = next(
        (position for position, depth in _depths(name) if position > opening and name[position] == ">" and depth == 0),
        len(name),
    )
    return name[:opening], _split_arguments(name[opening + 1 : closing]), name[closing + 1 :].removeprefix("::")


def without_lambdas(name: str) -> tuple[str, list[str]]:
    """The function that a lambda is written in, and the types of the innermost lambda's arguments."""
    types = _LAMBDA_TYPES.findall(name)
    innermost = [kind.strip() for kind in types[-1].split(",") if kind.strip()] if types else []
    name = name.replace(_ANONYMOUS, "anonymous")
    for position, depth in _depths(name):
        if depth == 0 and name[position] == "(":
            return name[:position].removesuffix("operator").removesuffix("::"), innermost
        if depth == 0 and name[position] == "{":
            return name[:position].removesuffix("::"), innermost
    return name, innermost


def last_component(path: str) -> str:
    """The last name of a path of namespaces: ``at::native::f`` gives f."""
    return path.strip().rpartition("::")[2] or path.strip()


def deepest(name: str) -> int:
    """How deep the brackets of the name nest."""
    return max((depth + 1 for at, depth in _depths(name) if name[at] in _PAIRS), default=0)


def _split_arguments(text: str) -> list[str]:
    cuts = [position for position, depth in _depths(text) if text[position] == "," and depth == 0]
    starts = [0, *(cut + 1 for cut in cuts)]
    return [text[start:end].strip() for start, end in zip(starts, [*cuts, len(text)], strict=True)]


def _depths(text: str) -> list[tuple[int, int]]:
    """Every bracket, comma and space with the number of brackets around it; a bracket is not around itself."""
    found: list[tuple[int, int]] = []
    closers: list[str] = []
    for mark in _MARKS.finditer(text):
        position, character = mark.start(), mark.group()
        if character in _PAIRS:
            found.append((position, len(closers)))
            closers.append(_PAIRS[character])
        elif closers and character == closers[-1] and not (character == ">" and text[position - 1] == "-"):
            closers.pop()
            found.append((position, len(closers)))
        elif character in ", ":
            found.append((position, len(closers)))
    return found
