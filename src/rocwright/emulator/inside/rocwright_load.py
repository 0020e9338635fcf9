"""Load code objects with HIP's runtime, and look every kernel of theirs up; runs where the runtime is.

    python rocwright_load.py TASKS.json NAMES.json

TASKS.json names the runtime's library and the code objects: their files, and the kernels that they have to
hold; NAMES.json those that are to be loaded. Prints a line of JSON when one begins and when it is over;
standard library only, Python 3.8 or later.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

# hipFuncAttribute: the largest block, and bytes of LDS.
_THREADS, _SHARED = 0, 1
_MOST = 50
_BYTES = 4096


def tell(line: dict[str, Any]) -> None:
    """A line for whoever started this."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Hip:
    """The calls of the runtime that are needed; each gives an error as text, empty for success."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        self.library.hipGetErrorString.restype = ctypes.c_char_p

    def error(self, status: int) -> str:
        """The runtime's words for a status, with its number; empty for success."""
        if status == 0:
            return ""
        said = self.library.hipGetErrorString(status)
        return f"error {status}, {said.decode('utf-8', 'replace') if said else 'unknown'}"

    def start(self) -> str:
        """Why there is no GPU to load for; empty where there is one."""
        count = ctypes.c_int(0)
        said = self.error(self.library.hipInit(0))
        said = said or self.error(self.library.hipGetDeviceCount(ctypes.byref(count)))
        if not said and count.value < 1:
            said = "it shows none"
        return said or self.error(self.library.hipSetDevice(0)) or self.execute()

    def execute(self) -> str:
        """Have the GPU set some memory: a kernel of the runtime's own, by which it is seen to be there."""
        place = ctypes.c_void_p()
        said = self.error(self.library.hipMalloc(ctypes.byref(place), ctypes.c_size_t(_BYTES)))
        said = said or self.error(self.library.hipMemset(place, 1, ctypes.c_size_t(_BYTES)))
        said = said or self.error(self.library.hipDeviceSynchronize())
        return said or self.error(self.library.hipFree(place))

    def load(self, data: bytes, kernels: list[str]) -> dict[str, Any]:
        """What came of one code object."""
        module = ctypes.c_void_p()
        held = ctypes.create_string_buffer(data, len(data))
        said = self.error(self.library.hipModuleLoadData(ctypes.byref(module), held))
        if said:
            return {"state": "refused", "detail": said}
        bad: list[list[str]] = []
        shared: dict[str, int] = {}
        for name in kernels:
            function = ctypes.c_void_p()
            encoded = name.encode("utf-8", "surrogateescape")
            said = self.error(self.library.hipModuleGetFunction(ctypes.byref(function), module, encoded))
            value = ctypes.c_int(0)
            if not said:
                said = self.error(self.library.hipFuncGetAttribute(ctypes.byref(value), _THREADS, function))
                if not said and value.value < 1:
                    said = "it can be launched with no thread"
            if not said:
                said = self.error(self.library.hipFuncGetAttribute(ctypes.byref(value), _SHARED, function))
                shared[name] = value.value
            if said:
                bad.append([name, said])
        said = self.error(self.library.hipModuleUnload(module))
        if said:
            return {"state": "refused", "detail": "unloading: " + said}
        return {
            "state": "kernel missing" if bad else "loads",
            "bad": bad[:_MOST],
            "bad_count": len(bad),
            "shared": {name: size for name, size in shared.items() if size},
        }


def main(words: list[str]) -> int:
    """Load the named ones in order."""
    tasks = json.loads(Path(words[0]).read_bytes())
    try:
        hip = Hip(tasks["library"])
    except OSError as error:
        tell({"problem": f"HIP's runtime cannot be loaded: {error}"})
        return 1
    said = hip.start()
    if said:
        tell({"problem": "HIP shows no GPU: " + said})
        return 1
    for name in json.loads(Path(words[1]).read_bytes()):
        tell({"begin": name})
        task = tasks["objects"][name]
        tell(dict(hip.load(Path(task["path"]).read_bytes(), task["kernels"]), done=name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
