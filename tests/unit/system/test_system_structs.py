"""Types that threads meet at the same moment for the first time."""

from __future__ import annotations

import subprocess
import sys

# New types each time, as every process has; threads that take turns as often as the interpreter allows.
PROGRAM = """
import sys
import threading

import msgspec

from rocwright.system.parallel import in_order

sys.setswitchinterval(1e-6)
text = '''
import msgspec
class Inner(msgspec.Struct, frozen=True):
    a: int
    c: tuple[str, ...] = ()
class Outer(msgspec.Struct, frozen=True):
    x: int
    z: tuple[Inner, ...]
    w: dict[str, Inner]
'''
data = b'{"x":1,"z":[{"a":1,"c":["r"]}],"w":{"k":{"a":2}}}'
wrong = []

def decode(kind):
    together.wait()
    try:
        found = msgspec.json.decode(data, type=kind)
    except Exception as error:
        wrong.append(error)
        return
    if (found.z[0].c, found.w["k"].a) != (("r",), 2):
        wrong.append(found)

for _ in range(400):
    module = {}
    exec(text, module)
    together = threading.Barrier(4)
    list(in_order(decode, [(module["Outer"], 1)] * 4, threads=4, window=100))
sys.exit(str(wrong[:3]) if wrong else 0)
"""


def test_threads_decode_types_that_nobody_met_before() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
