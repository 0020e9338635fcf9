"""Whatever a wheel's modules, entry points, scripts and versions are: the check ends with no traceback."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from spoiled import spoiled

from rocwright.check.gather import gather, inside_python
from rocwright.check.rules.versions import other_rocm, other_version
from rocwright.check.run import check_paths
from wheels import write_wheel

INFO, DATA = "torch-1.0.dist-info", "torch-1.0.data"
FILES = {
    "torch/__init__.py": (
        '"""Text.\n\nfrom .lost import x\n"""\nfrom __future__ import annotations\nimport os, sys as s\n'
        "from .version import __version__, hip\nfrom . import (\n    tensor,  # one\n    nn,\n)\n"
        "from torch.nn import *\nimport torch.nn.late\n__all__ = ['tensor']\n"
        "def __getattr__(name):\n    raise AttributeError(name)\n"
    ),
    "torch/version.py": "__version__ = '1.0'\ndebug = False\nhip: str = '7.1.25421'\nrocm = '7.1.0'\n",
    "torch/tensor.py": (
        "from .nn import Layer\nclass Tensor(Layer):\n"
        "    def size(self, *, of=1, **more): return f'{of!r:>{of}}'\n"
        "match = 1\nmatch match:\n    case {'a': [1, *_]}: pass\n"
        "with (open('a') as a, open('b') as b): pass\nx = lambda: (yield)\n"
    ),
    "torch/nn.py": "Layer = object\n",
    "torch/nn/__init__.py": "class Layer: pass\nglobals()['late'] = 1\n",
    "torch/nn/late.py": "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> main\n",
    f"{INFO}/entry_points.txt": (
        "[console_scripts]\ntorchrun = torch.tensor:Tensor.size [dev]\n[torch.backends]\na=torch.nn\n"
    ),
    f"{DATA}/scripts/run": "#!/build/venv/bin/python3.11\nimport torch\n",
}
PIECES = (
    b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\x0c", b"\t", b"\\\n",
    "\u2028\u212b\u00aa".encode(), b"# coding: utf-7\n", b"# coding: utf-16\n",
    b"# -*- coding: cp500 -*-\n", b"# coding: rot13\n", b"#!", b"'", b'"', b"'''", b'"""', b"f'{", b"}'",
    b"(", b")", b"[", b"]", b"{", b"}", b":", b":=", b"=", b";", b",", b".", b"...", b"*", b"**", b"@",
    b"->", b"!", b"\\", b"import ", b"from ", b"from . import *\n", b"from .. import x\n",
    b"from ......... import x\n", b"import torch.\n", b"from torch import (\n", b"import a.b.c as d, e\n",
    b"global x\n", b"return\n", b"yield\n", b"await x\n", b"break\n", b"async def f(): await g()\n",
    b"nonlocal x\n", b"\xd9\xa3", b"del x\n", b"9" * 5000, b"0x" + b"f" * 5000, b"(" * 300,
    b"not " * 3000, b"x." * 3000, b"if 1:\n " * 120, b"__version__ = '",
    "__version__ = '1.0+é'\n".encode(), b"hip = '" + b"9" * 5000 + b"'\n", b"rocm = '7..1'\n",
    b"hip = '\\ud800'\n", b"[console_scripts]\n", b" = ", b"a = torch.nn:\n", b"a = torch..nn:x\n",
    b"a = :x\n", b"a = torch:x.y.z [\n", b"%(x)s", b"[]\n", b"<<<<<<< a\n=======\n>>>>>>> b\n",
)  # fmt: skip


@pytest.mark.parametrize("seed", [3, 31])
def test_no_python_stops_the_check(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rules: set[str] = set()
    for _ in range(80):
        often = chance.choice((0.2, 0.6))
        files = {
            name: spoiled(text, chance, PIECES) if chance.random() < often else text
            for name, text in FILES.items()
        }
        requires = ["rocm==7.1.0", "numpy"]
        report = check_paths(
            [write_wheel(tmp_path, "torch", "1.0", files, requires=requires, tag="py3-none-any")],
            closed=chance.random() < 0.5,
        )
        assert len(report.files) == 1
        rules |= {one.rule for one in report.findings}
    assert rules >= {"python-syntax", "import-missing", "commands", "merge-marks", "script-interpreter"}


def test_no_version_stops_the_check(tmp_path: Path) -> None:
    facts = gather(write_wheel(tmp_path, "torch", "1.0+rocm7.1", {}))
    chance = random.Random(5)
    parts = (
        "1",
        "0",
        ".",
        "..",
        "+",
        "!",
        "-",
        "rocm7",
        "a1",
        "dev",
        "é",
        "\u0663",
        " ",
        "\n",
        "9" * 5000,
        "v",
    )
    for _ in range(3000):
        said = "".join(chance.choices(parts, k=chance.randint(1, 7)))
        other_version(said, "1.0+rocm7.1")
        other_rocm(said, said, facts, None)


@pytest.mark.parametrize(
    "unit",
    [
        *(b"= a", b"=" + b" " * 99, b"a = b.c:", b"a=" + b"a." * 99),
        *(b"__version__ =", b"import a, ", b"from a import ("),
    ],
)
def test_no_text_takes_long(unit: bytes, tmp_path: Path) -> None:
    text = unit * (200_000 // len(unit))
    files = {"torch/__init__.py": b"x = '''" + text + b"'''\n", f"{INFO}/entry_points.txt": b"[a]\n" + text}
    path = write_wheel(tmp_path, "torch", "1.0", files)
    began = time.process_time()
    check_paths([path])
    inside_python.look(text, {"a"})
    assert time.process_time() - began < 20
