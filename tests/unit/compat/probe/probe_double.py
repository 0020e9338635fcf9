"""A test double of torch: tensors as lists of numbers, and data types that end the process, hang or fail.

What goes wrong is said by the environment variable DOUBLE_TORCH, as JSON: `{"float16": "segfault"}` names
what a data type does when a tensor of it is made, `{"import": …}` what the import does, `"gpus": n` its GPUs.
"""

from __future__ import annotations

import json
from pathlib import Path

_CODE = """
import json
import os
import signal
import sys
import time
import types

FAULTS = json.loads(os.environ.get("DOUBLE_TORCH", "{}"))
SPOILED = []


def act(fault):
    if fault == "segfault":
        print("the double is about to crash", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "hang":
        time.sleep(600)
    elif fault == "exit":
        os._exit(0)
    elif fault == "raise":
        raise RuntimeError("not here\\nand a second line")
    elif fault == "take the GPU along":
        open(FAULTS["mark"], "w").close()
        os.kill(os.getpid(), signal.SIGABRT)
    elif fault == "spoil":
        SPOILED.append(1)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


if FAULTS.get("import") == "missing library":
    raise ImportError("libamdhip64.so.7: cannot open shared object file: No such file or directory")
act(FAULTS.get("import"))


class dtype:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


float32 = float = dtype("float32")
float16 = half = dtype("float16")
bfloat16 = dtype("bfloat16")
int64 = dtype("int64")
int32 = dtype("int32")
uint8 = dtype("uint8")
uint16 = dtype("uint16")


def check():
    if SPOILED:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


class Tensor:
    def __init__(self, rows, dtype, device="cpu"):
        self.rows, self.dtype, self.device = rows, dtype, types.SimpleNamespace(type=device)

    def to(self, what, copy=False):
        if isinstance(what, str):
            if self.dtype is bfloat16 and "bfloat16 copy" in FAULTS:
                raise NotImplementedError("no copy of bfloat16")
            return Tensor(self.rows, self.dtype, what)
        return Tensor(self.rows, what, self.device.type)

    def cpu(self):
        return Tensor(self.rows, self.dtype)

    def view(self, kind):
        return self

    def flatten(self):
        return Tensor([one for row in self.rows for one in row], self.dtype)

    def tolist(self):
        return list(self.rows)

    def __add__(self, other):
        check()
        if self.dtype is uint16:
            raise NotImplementedError('"add_stub" not implemented for \\'UInt16\\'')
        if isinstance(other, int):
            return Tensor([one + other for one in self.rows], self.dtype)
        found = [a + b for a, b in zip(self.rows, other.rows)]
        if "wrong sum" in FAULTS and self.dtype is int32:
            found[3] += 1
        return Tensor(found, self.dtype)


def tensor(values, dtype=float32):
    act(FAULTS.get(dtype.name))
    return Tensor(values, dtype)


def zeros(count, dtype=float32, device="cpu"):
    check()
    return Tensor([0] * count, dtype, device)


def ones(*shape, dtype=float32, device="cpu"):
    rows = [1.0] * shape[0] if len(shape) == 1 else [[1] * shape[1] for _ in range(shape[0])]
    return Tensor(rows, dtype, device)


def mm(left, right):
    check()
    side = len(left.rows)
    return Tensor([[side] * side for _ in range(side)], left.dtype)


def synchronize():
    check()


def properties(index):
    return types.SimpleNamespace(name="No GPU", gcnArchName="gfx942:sramecc+", total_memory=1 << 30)


def init():
    act(FAULTS.get("init"))


class Profile:
    def __init__(self, activities):
        pass

    def __enter__(self):
        act(FAULTS.get("profiler"))
        return self

    def __exit__(self, *problem):
        pass

    def events(self):
        kind = types.SimpleNamespace
        return [kind(name="Memcpy HtoD", device_type="CUDA"), kind(name="a_kernel", device_type="CUDA")]


profiler = types.SimpleNamespace(profile=Profile, ProfilerActivity=types.SimpleNamespace(CUDA=1))
# Functions that give nothing: what is made of their results is not asked here.
fft = types.SimpleNamespace(fft=lambda one: 0, rfft2=lambda one: 0, irfft2=lambda one: 0)
__version__ = "2.10.0+double"
version = types.SimpleNamespace(
    hip=FAULTS.get("hip"), cuda=FAULTS.get("cuda"), git_version="0123abcd", debug=False
)
cuda = types.SimpleNamespace(
    init=init,
    device_count=lambda: 0 if os.path.exists(FAULTS.get("mark", "")) else FAULTS.get("gpus", 0),
    get_device_properties=properties,
    synchronize=synchronize,
)
_C = types.SimpleNamespace(_cuda_getArchFlags=lambda: "gfx942 gfx1100")


class Stuck:
    flag = True
    stuck = property(lambda self: True, lambda self, value: None)


backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=Stuck()))
"""

# A table of a few rows: what each of them comes to is known by hand.
TABLE = """
[limits]
exercise_s = 20
start_s = 20
[[kind]]
name = "float"
needs = ["create", "to device", "to host", "convert", "elementwise", "matmul"]
[[kind]]
name = "integer"
needs = ["create", "to device", "to host", "convert", "elementwise"]
[[kind]]
name = "limited"
needs = ["create", "to device", "to host", "convert"]
[[dtype]]
name = "float16"
also = ["half"]
kind = "float"
[[dtype]]
name = "float32"
also = ["float"]
kind = "float"
[[dtype]]
name = "bfloat16"
kind = "float"
[[dtype]]
name = "int32"
kind = "integer"
[[dtype]]
name = "uint16"
kind = "limited"
claim = "limited"
"""
FLAGS = """
[[flag]]
name = "torch.backends.cuda.matmul.flag"
dtype = "float16"
issue = "an issue"
[[flag]]
name = "torch.backends.cuda.matmul.stuck"
dtype = "float16"
issue = "an issue"
[[flag]]
name = "torch.backends.cuda.matmul.absent"
dtype = "float16"
issue = "an issue"
"""
NOTHING_ELSE = "exercise = []\nlibrary = []\nflag = []\n"


def write_torch(root: Path) -> Path:
    """The double in a directory for PYTHONPATH."""
    (root / "torch").mkdir(parents=True)
    (root / "torch" / "__init__.py").write_text(_CODE)
    return root


def faults(**said: object) -> str:
    """The variable's value; a name with a space in it is written with an underscore."""
    return json.dumps({name.replace("_", " "): value for name, value in said.items()})
