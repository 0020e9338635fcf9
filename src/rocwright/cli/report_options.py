"""Options of the commands that make reports: what is known of the runs besides their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.gputest.report.markdown import About
from rocwright.model.testing import Ran
from rocwright.system.output import without_login

Paths = Annotated[tuple[Path, ...], Parameter(negative_iterable=(), show_default=False)]
Flag = Annotated[bool, Parameter(negative=())]


@Parameter(name="*")
@dataclass(frozen=True)
class AboutRuns:
    """What the reports are of, for the head of the page and for runs whose files do not say it."""

    suite: Annotated[str, Parameter(show_default=False)] = ""
    """The suite that ran: units, smoke-gpu."""

    test_config: Annotated[str, Parameter(env_var="TEST_CONFIG", show_default=False)] = ""
    """The configuration that ran: default, distributed, inductor."""

    target: Annotated[str, Parameter(show_default=False)] = ""
    """The GPU target that it ran on."""

    amdgpu_family: Annotated[str, Parameter(env_var="AMDGPU_FAMILY", show_default=False)] = ""
    """The GPU family that the wheels are for."""

    torch_version: Annotated[str, Parameter(env_var="TORCH_VERSION", show_default=False)] = ""
    """The version of torch."""

    python_version: Annotated[str, Parameter(env_var="PYTHON_VERSION", show_default=False)] = ""
    """The version of Python."""

    package_index_url: Annotated[str, Parameter(env_var="PACKAGE_INDEX_URL", show_default=False)] = ""
    """The index that the wheels came from."""

    pytorch_git_ref: Annotated[str, Parameter(env_var="PYTORCH_GIT_REF", show_default=False)] = ""
    """The branch, tag or commit of PyTorch that the tests came from."""

    def told(self) -> Ran:
        """For runs whose files do not say it."""
        return Ran(
            suite=self.suite,
            config=self.test_config or "default",
            target=self.target,
            torch=self.torch_version,
            python=self.python_version,
        )

    def about(self, set_id: str = "") -> About:
        """For the head of the report; `set_id` is the set that was tested."""
        return About(
            torch=self.torch_version,
            python=self.python_version,
            family=self.amdgpu_family or self.target,
            index=without_login(self.package_index_url),
            ref=self.pytorch_git_ref,
            set_id=set_id,
        )


ABOUT = AboutRuns()
