"""`rocm-sdk test --torch`: the installed PyTorch imports, fits this ROCm, computes on every GPU."""

from . import _gpus, _set
from ._checks import check, run_worker

SECONDS = 600  # the first use of a GPU may compile
FIXES = {
    "import": "install PyTorch for ROCm, from the index that this ROCm is from",
    "hip": "a PyTorch without ROCm took its place; install it again from the index that this ROCm is from",
    "version": f"install the PyTorch that was built for ROCm {_set.VERSION}",
    "gpus": "rocm-sdk test --device tells more",
}


def _torch():
    gpus, problems = _gpus.visible()
    steps = ["import", "hip", "version"]
    if gpus:
        steps += ["gpus", *("{}:matmul".format(gpu["index"]) for gpu in gpus)]
    task = {"version": _set.VERSION, "gpus": len(gpus)}
    told = run_worker("_torch_worker", task, steps, SECONDS, isolated=False)
    for step in steps:
        fix = FIXES.get(step, FIXES["gpus"]) if told[step]["verdict"] == "failed" else ""
        yield check("torch:" + step, told[step]["verdict"], told[step]["cause"], fix)
    if not gpus:
        yield check("torch:gpus", "skipped", "no AMD GPU: " + "; ".join(problems or ["there is none"]))


PARTS = (_torch,)
