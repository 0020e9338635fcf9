"""`rocwright pipeline test-summary`, also known as `summarize_test_pytorch_workflow.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import Several, Text
from rocwright.model.platforms import Platform, this_platform
from rocwright.pipeline.tell.tested import test_report, tested
from rocwright.system import console
from rocwright.system.workflow import tell_summary


@answers
def pipeline_test_summary(
    *,
    torch_version: Text = "",
    pytorch_git_ref: str = "nightly",
    index_url: Text = "",
    find_links: Several = (),
    index_subdir: Text = "",
    device_extras: Text = "",
    python_version: Text = "",
    platform: Platform | None = None,
) -> Iterator[Answer]:
    """Say what a workflow tests, with lines that set the same up on another machine.

    Printed, and added to the page of the workflow's run.

    Parameters
    ----------
    torch_version
        The version that is tested (default: the newest).
    pytorch_git_ref
        PyTorch's branch, tag or commit, for its tests: nightly and main of pytorch/pytorch, else of
        ROCm/pytorch.
    index_url
        The package index with the wheels.
    find_links
        Instead of an index: a page with the wheels; may be repeated.
    index_subdir
        The directory of a family below the index, such as gfx94X-dcgpu.
    device_extras
        Extras of torch for GPUs, such as device-gfx942; separated by commas.
    python_version
        Such as 3.12 (default: the one that runs this).
    platform
        linux or windows, for the spelling of the lines (default: this machine's).
    """
    here: Platform = this_platform()
    about = tested(
        torch=torch_version,
        python=python_version or f"{sys.version_info[0]}.{sys.version_info[1]}",
        ref=pytorch_git_ref,
        index=index_url,
        subdir=index_subdir,
        device=device_extras,
        find_links=find_links,
        platform=platform or here,
    )
    lines = test_report(about)
    yield Answer(about, lambda: console.out("\n".join(lines).rstrip("\n")))
    if not tell_summary(lines):
        console.say("GITHUB_STEP_SUMMARY is not set: the summary is only printed")
