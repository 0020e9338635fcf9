"""Read Python source of a wheel as a tree, whatever is wrong with it; it is never run."""

from __future__ import annotations

import ast
import warnings

_FAULTS = (SyntaxError, ValueError, TypeError, RecursionError)


def parse_source(text: str) -> ast.Module | str:
    """The tree of a module, or why there is none."""
    try:
        with warnings.catch_warnings():
            # About the style of a text that is not ours.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except MemoryError:
        return "it is nested too deeply to be read"  # what the parser of CPython before 3.13 says of that
    except _FAULTS as error:
        return f"it is no valid Python: {error}"


def literal(node: ast.expr) -> object:
    """The value of a literal; None for what is none, such as a call, or a list as a key."""
    try:
        return ast.literal_eval(node)
    except (*_FAULTS, MemoryError):
        return None
