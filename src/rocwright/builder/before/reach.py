"""What a setup.py comes to: the calls that are made in it and in the modules beside it that it imports, and
whether each is made in any case; read, never executed.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rocwright.builder.before.modules import FUNCTIONS, Module, Modules

_LATER = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Reached(NamedTuple):
    """A call: `certain` where it is made whatever comes, else where a condition lets it."""

    path: Path
    call: ast.Call
    certain: bool


class Script:
    """A setup.py and the modules below its directory that it imports, as far as names tell what is called.

    A condition is not judged, whatever it is: what stands behind one, behind a `return` that one guards, in a
    loop that may be empty, or where an exception is caught, is not certain. Functions and classes that are
    only named (in `cmdclass`, for example) may be called, with all their methods. What is called by another
    way, a method of a value or a program, is not followed.
    """

    def __init__(self, setup: Path) -> None:
        self.main = setup
        self.modules = Modules(setup.parent)
        self._calls: dict[ast.Call, Reached] = {}
        # Bodies that were looked at, and whether as certain ones.
        self._seen: dict[ast.AST, bool] = {}
        self._pending: list[tuple[Sequence[ast.stmt], Module, bool]] = []
        self._enter(setup, certain=True)
        while self._pending:
            # Of expressions that nest thousands deep nothing is told.
            with contextlib.suppress(RecursionError):
                self._block(*self._pending.pop())

    def calls(self) -> Iterator[Reached]:
        """Those of setup.py first, file by file, in the order of their lines."""
        order = list(self.modules.known)
        yield from sorted(
            self._calls.values(),
            key=lambda each: (order.index(each.path), each.call.lineno, each.call.col_offset),
        )

    def every_call(self) -> Iterator[Reached]:
        """Those, and what else stands in setup.py, whoever may call it."""
        found = {each.call: each for each in self.calls()}
        module = self.modules.get(self.main)
        own = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)] if module else []
        for call in sorted(own, key=lambda node: (node.lineno, node.col_offset)):
            yield found.pop(call, Reached(self.main, call, False))
        yield from found.values()

    def says(self, word: str) -> bool:
        """Whether a text in one of the modules is this word."""
        return any(
            isinstance(node, ast.Constant) and node.value == word
            for module in self.modules.known.values()
            if module is not None
            for node in ast.walk(module.tree)
        )

    # -- what runs

    def _block(self, statements: Iterable[ast.stmt], module: Module, certain: bool) -> None:
        for statement in statements:
            self._visit(statement, module, certain)
            if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                return
            certain = certain and not _may_leave(statement)

    def _visit(self, node: ast.AST, module: Module, certain: bool) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self._all(node.decorator_list, module, certain)
            if isinstance(node, ast.ClassDef):
                self._block([each for each in node.body if not isinstance(each, _LATER)], module, certain)
        elif isinstance(node, ast.Lambda):
            self._visit(node.body, module, False)
        elif isinstance(node, ast.If) and _asks_for_main(node.test):
            is_main = module.path == self.main
            self._block(node.body if is_main else node.orelse, module, certain)
        elif isinstance(node, (ast.If, ast.While)):
            self._visit(node.test, module, certain)
            self._block(node.body, module, False)
            self._block(node.orelse, module, False)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._visit(node.iter, module, certain)
            self._block(node.body, module, certain and _is_filled(node.iter, module))
            self._block(node.orelse, module, False)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            self._try(node, module, certain)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            self._all(node.items, module, certain)
            self._block(node.body, module, certain and not any(map(_is_suppress, node.items)))
        elif isinstance(node, ast.Match):
            self._visit(node.subject, module, certain)
            for case in node.cases:
                self._block(case.body, module, False)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for path in self.modules.run_by(node, module):
                self._enter(path, certain=certain)
        else:
            self._expression(node, module, certain)

    def _try(self, node: ast.AST, module: Module, certain: bool) -> None:
        body, handlers = getattr(node, "body", []), getattr(node, "handlers", [])
        self._block([*body, *getattr(node, "orelse", [])], module, certain and not handlers)
        for handler in handlers:
            self._block(handler.body, module, False)
        self._block(getattr(node, "finalbody", []), module, certain)

    def _expression(self, node: ast.AST, module: Module, certain: bool) -> None:
        if isinstance(node, ast.Call):
            before = self._calls.get(node)
            self._calls[node] = Reached(module.path, node, certain or (before is not None and before.certain))
            target = self.modules.named(node.func, module)
            if target is None:
                self._visit(node.func, module, certain)
            else:
                self._come(*target, certain=certain)
            self._all([*node.args, *node.keywords], module, certain)
        elif isinstance(node, ast.BoolOp):
            self._visit(node.values[0], module, certain)
            self._all(node.values[1:], module, False)
        elif isinstance(node, ast.IfExp):
            self._visit(node.test, module, certain)
            self._all([node.body, node.orelse], module, False)
        elif isinstance(node, _COMPREHENSIONS):
            self._visit(node.generators[0].iter, module, certain)
            first = node.generators[0]
            rest = [*first.ifs, *node.generators[1:]]
            values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            self._all([*rest, *values], module, False)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            target = self.modules.named(node, module)
            if target is not None:
                self._come(*target, certain=False)
            elif isinstance(node, ast.Attribute):
                self._visit(node.value, module, certain)
        else:
            self._all(ast.iter_child_nodes(node), module, certain)

    def _all(self, nodes: Iterable[ast.AST], module: Module, certain: bool) -> None:
        for node in nodes:
            self._visit(node, module, certain)

    def _come(self, module: Module, node: ast.AST, *, certain: bool) -> None:
        """To a function, or to a class, whose methods are called by whom nobody knows."""
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, FUNCTIONS):
                    self._come(module, each, certain=False)
        elif isinstance(node, FUNCTIONS) and self._is_new(node, certain and not _is_lazy(node)):
            self._pending.append((node.body, module, certain and not _is_lazy(node)))

    def _enter(self, path: Path, *, certain: bool) -> None:
        module = self.modules.get(path)
        if module is not None and self._is_new(module.tree, certain):
            self._pending.append((module.tree.body, module, certain))

    def _is_new(self, node: ast.AST, certain: bool) -> bool:
        if node in self._seen and (self._seen[node] or not certain):
            return False
        self._seen[node] = certain
        return True


def _asks_for_main(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
    )


def _is_suppress(item: ast.withitem) -> bool:
    func = getattr(item.context_expr, "func", None)
    return "suppress" in (getattr(func, "attr", ""), getattr(func, "id", ""))


def _may_leave(
    node: ast.AST, kinds: tuple[type[ast.AST], ...] = (ast.Return, ast.Break, ast.Continue)
) -> bool:
    """Whether what stands behind a statement may be left out because of it."""
    if isinstance(node, kinds):
        return True
    if isinstance(node, _LATER):
        return False
    inner = (ast.Return,) if isinstance(node, _LOOPS) else kinds
    return any(_may_leave(each, inner) for each in ast.iter_child_nodes(node))


def _is_filled(node: ast.expr, module: Module) -> bool:
    """Whether a loop over it is gone through at least once."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("items", "keys", "values"):
        node = getattr(node.func, "value", node)
    if isinstance(node, ast.Name):
        node = module.values.get(node.id, node)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return any(not isinstance(each, ast.Starred) for each in node.elts)
    return isinstance(node, ast.Dict) and any(node.keys)


def _is_lazy(node: ast.AST) -> bool:
    """Whether a call of a function does nothing yet."""
    if isinstance(node, ast.AsyncFunctionDef):
        return True
    pending = list(ast.iter_child_nodes(node))
    while pending:
        each = pending.pop()
        if isinstance(each, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(each, _LATER):
            pending += ast.iter_child_nodes(each)
    return False
