"""Node ids from the names in test reports, whose dialects cut them up differently.

pytest writes `classname="distributed.test_c10d.TestGroup" name="test_a[x]"`, unittest-xml-reporting the same
without the directory or with `__main__` in front; PyTorch's own runner moves the file into an attribute.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

# The directory of the tests of a checkout of PyTorch: node ids are relative to it.
_TESTS_OF_PYTORCH = re.compile(r"(?:(?:.*/)?pytorch[^/]*/)?test/(?=.)")
_MODULE = re.compile(r"test_\w+|[a-z0-9_]+_test")
_CLASS = re.compile(r"_*[A-Z]\w*")
# `test_a (i=1)` and `testScripts (rocm_sdk.tests.Core) [rocminfo]` are parts of one test.
_PART_OF = re.compile(r"(?P<test>[A-Za-z_]\w*)\s+[(\[].*", re.DOTALL)


def node_id(classname: str, name: str, *, file: str = "", report: str = "") -> str:
    """The node id of a test case.

    `file` is the attribute of that name, `report` the directory of the report as PyTorch's runner calls it:
    `python-pytest/distributed.test_c10d`. A case without a class name stands for a whole file.
    """
    if not classname:
        return _relative(file) or _file_of(name.split("."))
    parts = [part for part in classname.split(".") if part != "__main__"]
    path, classes = _cut(parts)
    if file:
        path = _relative(file)
    elif not path:
        path = _from_report(report)
    part = _PART_OF.fullmatch(name)
    return "::".join(filter(None, (path, *classes, part["test"] if part else name)))


def cut_id(test: str) -> tuple[str, tuple[str, ...], str]:
    """File, classes and name of a node id; a parameter may hold colons, and belongs to the name."""
    file, _, rest = test.partition("::")
    names, bracket, parameters = rest.partition("[")
    *classes, name = names.split("::")
    return file, tuple(classes), name + bracket + parameters


def _cut(parts: list[str]) -> tuple[str, list[str]]:
    """The file and the classes of a dotted name."""
    modules = [number for number, part in enumerate(parts) if _MODULE.fullmatch(part)]
    if modules:
        end = modules[-1] + 1
        return _file_of(parts[:end]), parts[end:]
    end = len(parts)
    while end and _CLASS.fullmatch(parts[end - 1]):
        end -= 1
    return _file_of(parts[:end]), parts[end:]


def _file_of(parts: list[str]) -> str:
    return _relative("/".join(parts) + ".py") if parts else ""


def _from_report(report: str) -> str:
    """`python-unittest/distributed.test_c10d` → `distributed/test_c10d.py`."""
    stem = PurePosixPath(report).name
    is_module = _MODULE.fullmatch(stem.rpartition(".")[2]) is not None
    return _file_of(stem.split(".")) if is_module else ""


def _relative(file: str) -> str:
    """A test file relative to the directory of PyTorch's tests, where it lies in one."""
    path = file.replace("\\", "/").removeprefix("./")
    inside = _TESTS_OF_PYTORCH.match(path)
    return path[inside.end() :] if inside else path
