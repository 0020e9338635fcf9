"""Compare operators of onnxruntime on a GPU with those of its CPU provider; needs it and numpy alone.

`rocwright_operators.py TASKS NAMES` prints a line of JSON when an operator begins and one when it is done. A
model of one node is written here, as bytes of ONNX's protocol buffers: onnx need not be installed.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

# TensorProto.DataType and AttributeProto.AttributeType.
TYPES = {"float32": 1, "int64": 7, "float16": 10}
FLOAT, INT, STRING, INTS = 1, 2, 3, 7
SEED = 20261126


def varint(value: int) -> bytes:
    """A whole number in groups of seven bits; a negative one as its 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes | str) -> bytes:
    """A field: a whole number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def real(number: int, value: float) -> bytes:
    """A field with a number of four bytes."""
    return varint(number << 3 | 5) + struct.pack("<f", value)


def attribute(name: str, value: Any) -> bytes:
    """An attribute of a node."""
    head = field(1, name)
    if isinstance(value, float):
        return head + real(2, value) + field(20, FLOAT)
    if isinstance(value, int):
        return head + field(3, value) + field(20, INT)
    if isinstance(value, str):
        return head + field(4, value) + field(20, STRING)
    return head + b"".join(field(8, each) for each in value) + field(20, INTS)


def value_info(name: str, type_: str, shape: list[int] | None = None) -> bytes:
    """Name and type of an input or output; of an output the shape follows from the node."""
    dims = b"" if shape is None else field(2, b"".join(field(1, field(1, each)) for each in shape))
    return field(1, name) + field(2, field(1, field(1, TYPES[type_]) + dims))


def tensor(name: str, array: Any, type_: str) -> bytes:
    """A constant."""
    head = b"".join(field(1, each) for each in array.shape)
    return head + field(2, TYPES[type_]) + field(8, name) + field(9, array.tobytes())


def model(row: dict[str, Any], arrays: list[Any], opset: int, ir_version: int) -> bytes:
    """A model of one node; inputs with values are constants of it."""
    names = [f"x{number}" for number in range(len(arrays))]
    node = b"".join(field(1, name) for name in names) + field(2, "y") + field(4, row["operator"])
    for name, value in row.get("attribute", {}).items():
        node += field(5, attribute(name, value))
    graph = field(1, node) + field(2, "one")
    for name, array, given in zip(names, arrays, row["input"], strict=True):
        if given.get("values"):
            graph += field(5, tensor(name, array, given["type"]))
        else:
            graph += field(11, value_info(name, given["type"], list(array.shape)))
    graph += field(12, value_info("y", row.get("output") or row["input"][0]["type"]))
    return field(1, ir_version) + field(7, graph) + field(8, field(1, "") + field(2, opset))


def arrays_of(row: dict[str, Any], numpy: Any) -> list[Any]:
    """The inputs, the same each time."""
    numbers = numpy.random.RandomState(SEED)
    found = []
    for given in row["input"]:
        if given.get("values"):
            array = numpy.array(given["values"]).reshape(given["shape"])
        elif given["type"] == "int64":
            array = numbers.randint(int(given["low"]), int(given["high"]) + 1, size=given["shape"])
        else:
            array = numbers.uniform(given["low"], given["high"], size=given["shape"])
        found.append(array.astype(given["type"]))
    return found


def session_of(onnxruntime: Any, data: bytes, provider: str) -> Any:
    """A session in which nothing runs elsewhere than on the provider."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if provider != "CPUExecutionProvider":
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return onnxruntime.InferenceSession(data, options, providers=[provider])


def compared(numpy: Any, row: dict[str, Any], expected: Any, found: Any) -> str:
    """How the answers differ; empty where they do not."""
    if expected.shape != found.shape:
        return f"its shape is {list(found.shape)}, the CPU's {list(expected.shape)}"
    wanted, is_ = expected.astype("float64").ravel(), found.astype("float64").ravel()
    relative = row.get("relative", 1e-3)
    finite = wanted[numpy.isfinite(wanted)]
    largest = float(numpy.abs(finite).max()) if finite.size else 0.0
    near = numpy.isclose(is_, wanted, rtol=relative, atol=relative * largest * 1e-3, equal_nan=True)
    if near.all():
        return ""
    at = int(numpy.argmin(near))
    told = f"{int((~near).sum())} of {near.size} numbers differ"
    return f"{told}; number {at} is {is_[at]:g}, the CPU's {wanted[at]:g}"


def tried(
    onnxruntime: Any, numpy: Any, task: dict[str, Any], row: dict[str, Any], provider: str
) -> tuple[str, str]:
    """What came of an operator: right, wrong, refused, or absent in this onnxruntime."""
    arrays = arrays_of(row, numpy)
    data = model(row, arrays, task["opset"], task["ir_version"])
    given = {
        f"x{number}": array
        for number, (array, one) in enumerate(zip(arrays, row["input"], strict=True))
        if not one.get("values")
    }
    # Its providers raise classes of their own, and whatever their libraries raise.
    try:
        expected = session_of(onnxruntime, data, "CPUExecutionProvider").run(None, given)[0]
    except Exception as error:
        return "absent", f"its own CPU provider does not run it: {first_line(error)}"
    try:
        found = session_of(onnxruntime, data, provider).run(None, given)[0]
    except Exception as error:
        return "refused", first_line(error)
    difference = compared(numpy, row, expected, found)
    return ("wrong", difference) if difference else ("right", "")


def first_line(error: Exception) -> str:
    """What an error says, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]


def say(**line: Any) -> None:
    """Print a line at once: the next thing may end the process."""
    print(json.dumps(line), flush=True)


def mark(kind: str, name: str) -> None:
    """A line in the log of the emulator, so that its kernels are known to be this operator's."""
    path = os.environ.get("ROCWRIGHT_EMULATOR_LOG")
    if path:
        log = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(log, f"\n\x1e{kind} {name}\n".encode())
        os.close(log)


def main(tasks: str, names: str) -> None:
    """Try the named operators one after the other."""
    task, wanted = (json.loads(Path(name).read_bytes()) for name in (tasks, names))
    try:
        numpy = importlib.import_module("numpy")
        onnxruntime = importlib.import_module("onnxruntime")
    except Exception as error:
        say(problem=f"onnxruntime cannot be imported: {first_line(error)}")
        return
    there = onnxruntime.get_available_providers()
    provider = next((name for name in task["providers"] if name in there), None)
    if provider is None:
        say(problem=f"this onnxruntime has no provider for AMD GPUs; it has {', '.join(there)}")
        return
    for name in wanted:
        say(begin=name)
        mark("begin", name)
        began = time.monotonic()
        state, detail = tried(onnxruntime, numpy, task, task["operators"][name], provider)
        mark("end", name)
        say(done=name, state=state, detail=detail, seconds=round(time.monotonic() - began, 3))


if __name__ == "__main__":
    main(*sys.argv[1:3])
