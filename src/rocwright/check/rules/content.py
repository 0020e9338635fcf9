"""Rules about what must be in a wheel: files by pattern, and sources that have to say certain things."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem, Rule

_INIT, _VERSION = "torch/_rocm_init.py", "torch/version.py"


def _rocm_init(facts: Facts, _: Context) -> Iterator[Problem]:
    text = facts.texts.get(_INIT)
    if text is None:
        yield Problem(
            "it is missing, so torch does not find ROCm's Python packages",
            "write it into the source tree before the wheel is built",
            _INIT,
        )
        return
    try:
        names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError as error:
        yield Problem(f"it is no valid Python: {error.msg}", "generate it again", _INIT)
        return
    if names != ["initialize"]:
        yield Problem(
            f"it defines {', '.join(names) or 'nothing'}; expected exactly initialize()",
            "generate it again",
            _INIT,
        )


def _assigned(text: str, name: str) -> object:
    """The literal last assigned to a module's variable; None when there is none."""
    value: object = None
    for node in ast.parse(text).body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            value = node.value.value if isinstance(node.value, ast.Constant) else None
    return value


def _hip(facts: Facts, _: Context) -> Iterator[Problem]:
    text = facts.texts.get(_VERSION)
    next_step = "look in the build's log for why ROCm was not found, then build again"
    if text is None:
        yield Problem("it is missing", next_step, _VERSION)
        return
    try:
        hip = _assigned(text, "hip")
    except SyntaxError as error:
        yield Problem(f"it is no valid Python: {error.msg}", next_step, _VERSION)
        return
    if not isinstance(hip, str) or not hip:
        yield Problem(f"it says hip = {hip!r}: this torch was built for the CPU only", next_step, _VERSION)


RULES = (
    Rule("torch-rocm-init", "torch/_rocm_init.py is there and defines exactly initialize().", _rocm_init),
    Rule("torch-hip", "torch/version.py names a HIP version: torch was not built for the CPU only.", _hip),
)
