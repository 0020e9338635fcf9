"""What an upload tells a workflow: outputs for later jobs, and a summary with the line that installs it."""

from __future__ import annotations

from rocwright.model.gpu import in_order, is_target
from rocwright.store.layout import Kind
from rocwright.store.runs.upload import Uploaded

_ROCM = "rocm"


def install_line(uploaded: Uploaded, kind: Kind) -> str:
    """The pip line for what was uploaded; wheels of PyTorch need the run's ROCm packages besides."""
    names = [entry.project for entry in uploaded.files]
    targets = in_order({name.rpartition("-device-")[2] for name in names if "-device-" in name})
    devices = [target for target in targets if is_target(target)]
    if _ROCM in names:
        extras = ["libraries", "devel", *(f"device-{target}" for target in devices[:1])]
        wanted = f'"{_ROCM}[{",".join(extras)}]"'
    else:
        wanted = " ".join(sorted({name for name in names if "-device-" not in name} or set(names)))
    url = uploaded.combined_url if kind == "pytorch" else uploaded.url
    return f"pip install {wanted} --pre --find-links={url}"


def outputs(uploaded: Uploaded) -> dict[str, str]:
    """The outputs of the step, by name."""
    return {
        "package_find_links_url": uploaded.url,
        "kpack_split": str(uploaded.split).lower(),
        "run_find_links_url": uploaded.combined_url,
    }


def step_summary(uploaded: Uploaded, kind: Kind) -> tuple[str, ...]:
    """Lines of Markdown for the page of the workflow's run."""
    return (
        f"### {'PyTorch' if kind == 'pytorch' else 'ROCm'} packages",
        "",
        f"{len(uploaded.files)} files: [{uploaded.prefix}index.html]({uploaded.url})",
        "",
        "```bash",
        install_line(uploaded, kind),
        "```",
        "",
    )
