"""What `rocm-sdk test --torch` does with PyTorch; runs in a process of its own, as it may crash or hang."""

import json

from ._checks import tell


def main(task):
    """Tell the result of every step: import, hip, version, gpus, and a matrix product on each GPU."""
    task = json.loads(task)
    try:
        import torch
    except Exception as error:  # whatever stops the import is the finding
        tell("import", "failed", f"{type(error).__name__}: {error}")
        return
    tell("import", "passed")
    hip = torch.version.hip
    if not hip:
        tell(
            "hip", "failed", f"torch {torch.__version__} was built without ROCm: torch.version.hip is {hip!r}"
        )
        return
    tell("hip", "passed")
    built, installed = (text.split(".")[:2] for text in (hip, task["version"]))
    if built == installed:
        tell("version", "passed")
    else:
        cause = "torch {} was built for HIP {}, ROCm {} is installed"
        tell("version", "failed", cause.format(torch.__version__, hip, task["version"]))
    if not task["gpus"]:
        return
    count = torch.cuda.device_count()
    if count != task["gpus"]:
        tell("gpus", "failed", "torch sees {} GPUs, the driver lists {}".format(count, task["gpus"]))
    else:
        tell("gpus", "passed")
    # Whole numbers small enough that the product is exact in any order of adding.
    left = torch.arange(4096, dtype=torch.float32).reshape(64, 64) % 7
    expected = (left @ left).tolist()
    for index in range(min(count, task["gpus"])):
        here = left.to(f"cuda:{index}")
        right = (here @ here).cpu().tolist() == expected
        tell(f"{index}:matmul", *(["passed"] if right else ["failed", "the product differs from the CPU's"]))
