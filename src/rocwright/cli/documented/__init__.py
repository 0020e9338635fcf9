"""The documented scripts: which command each of them stands for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocwright.cli import guarded, main, without_talk
from rocwright.data import load_table
from rocwright.data.overlay import Overlay, read_overlay
from rocwright.errors import Interrupted, UsageError
from rocwright.model.project import ProjectTable


@dataclass(frozen=True)
class Documented:
    """The words of a command; where `failure` is set, every failure ends with that exit code.

    A script of a `project` has sub-commands and defaults of its own, and so has the `builder`. `beside` are
    options whose default is a file or directory of that name beside the script.
    """

    command: tuple[str, ...]
    failure: int | None = None
    project: str | None = None
    builder: bool = False
    beside: Mapping[str, str] = field(default_factory=dict)

    def words(self, script: Path, given: Sequence[str]) -> list[str]:
        """The command that the script stands for, with its defaults and what is given."""
        own = given[: given.index("--")] if "--" in given else given
        named = {word.partition("=")[0] for word in own}
        defaults = [
            f"{option}={script.parent / name}" for option, name in self.beside.items() if option not in named
        ]
        return [*self.command, *defaults, *given]


# Tests come from the checkout that the other scripts make beside themselves.
_CHECKOUT = {"--pytorch-dir": "pytorch"}


def _checkouts(overlay: Overlay | None = None) -> dict[str, Documented]:
    """The scripts that check one project out, by path: a row of the projects' table names each."""
    rows = load_table("projects", ProjectTable, overlay).projects
    scripts = {
        row.script: Documented(("checkout", row.alias or row.name), project=row.name)
        for row in rows
        if row.script
    }
    return dict(sorted(scripts.items()))


# By path in the repository. Builds know the scripts by these names; people know the commands.
DOCUMENTED: Mapping[str, Documented] = {
    "build_tools/artifact_manager.py": Documented(("store", "artifacts")),
    "build_tools/build_python_packages.py": Documented(("sdk", "build")),
    "build_tools/compute_rocm_package_version.py": Documented(("sdk", "compute-version")),
    "build_tools/fetch_artifacts.py": Documented(("store", "fetch")),
    "build_tools/github_actions/amdgpu_family_matrix.py": Documented(("pipeline", "families")),
    "build_tools/github_actions/capture_job_summary.py": Documented(("pipeline", "capture-summary")),
    "build_tools/github_actions/configure_ci.py": Documented(("pipeline", "setup")),
    "build_tools/github_actions/configure_pytorch_release_matrix.py": Documented(("pipeline", "matrix")),
    "build_tools/github_actions/configure_pytorch_test_matrix.py": Documented(("pipeline", "tests")),
    "build_tools/github_actions/expand_amdgpu_families.py": Documented(("pipeline", "families")),
    "build_tools/github_actions/generate_pytorch_source_manifest.py": Documented(("sources", "manifest")),
    "build_tools/github_actions/generate_test_sharding_matrix.py": Documented(("test", "matrix")),
    "build_tools/github_actions/promote_wheels_based_on_policy.py": Documented(("store", "policy")),
    "build_tools/github_actions/python_to_cp_version.py": Documented(("wheel", "cp-version")),
    "build_tools/github_actions/summarize_test_pytorch_workflow.py": Documented(("pipeline", "test-summary")),
    "build_tools/github_actions/upload_python_packages.py": Documented(("store", "upload")),
    "build_tools/github_actions/workflow_summary.py": Documented(("pipeline", "workflow-summary"), failure=1),
    "build_tools/github_actions/write_torch_versions.py": Documented(("wheel", "torch-versions")),
    "build_tools/setup_venv.py": Documented(("test", "setup-venv")),
    "external-builds/pytorch/build_prod_wheels.py": Documented(("build",), builder=True),
    "external-builds/pytorch/checkout_from_manifest.py": Documented(("sources", "checkout-manifest")),
    **_checkouts(),
    "external-builds/pytorch/run_pytorch_tests.py": Documented(("test", "units"), beside=_CHECKOUT),
    "external-builds/pytorch/run_pytorch_tests_full.py": Documented(("test", "full"), beside=_CHECKOUT),
    "external-builds/pytorch/run_pytorch_smoke_tests.py": Documented(("test", "smoke")),
    "external-builds/pytorch/sanity_check_wheel.py": Documented(("wheel", "sanity-check"), failure=1),
    "external-builds/pytorch/summarize_test_results.py": Documented(
        ("test", "summarize"), beside={"--reports-dir": "pytorch/test/test-reports"}
    ),
    "external-builds/pytorch/skip_tests/create_skip_tests.py": Documented(("test", "skips", "export")),
    "external-builds/pytorch/windows_patch_fat_wheel.py": Documented(("wheel", "fat")),
    "third-party/indexer/indexer.py": Documented(("store", "index")),
}
# A copy may lie beside the checkouts, in whatever directory.
BY_FILE = {Path(name).name: documented for name, documented in DOCUMENTED.items()}


def run(script: str, arguments: Sequence[str] | None = None) -> None:
    """Run the command that the script with this path stands for; ends the process."""
    path = Path(script).resolve()
    given = sys.argv[1:] if arguments is None else arguments
    documented = BY_FILE.get(path.name)
    if documented is None:
        guarded(lambda: _run_own(path, without_talk(given)))
        sys.exit(0)
    if documented.builder:
        guarded(lambda: _run_builder(path, without_talk(given)))
        sys.exit(0)
    if documented.project is not None:
        project = documented.project
        guarded(lambda: _run_project(project, path, without_talk(given)))
        sys.exit(0)
    try:
        main(documented.words(path, given))
    except SystemExit as ended:
        failed = ended.code not in (None, 0, Interrupted.exit_code)
        raise SystemExit(documented.failure if failed and documented.failure else ended.code) from None


def _run_own(script: Path, arguments: Sequence[str]) -> None:
    """A script that only a `rocwright.toml` names, for a project of its own."""
    for name, documented in _checkouts(read_overlay()).items():
        if Path(name).name == script.name and documented.project is not None:
            _run_project(documented.project, script, arguments)
            return
    raise UsageError(
        f"{script.name} is not the name of a documented script, so there is no command for it",
        where=script,
        next_step=f"rename it to one of: {', '.join(sorted(BY_FILE))}",
    )


def _run_project(project: str, script: Path, arguments: Sequence[str]) -> None:
    # Imported when one of these scripts runs: the others need nothing of the sources.
    from rocwright.cli.documented.repo_script import run_script

    run_script(project, script, arguments)


def _run_builder(script: Path, arguments: Sequence[str]) -> None:
    from rocwright.cli.documented.build_script import run_script

    run_script(script, arguments)
