"""What rocm chooses where it is installed: a family of several, and the profilers with and without it."""

from __future__ import annotations

import json

from conformance.cases import row
from conformance.scenes.packages import VERSION
from conformance.scenes.packages_installed import environment, installed, installed_packages, offline
from conformance.scenes.packages_local import local_packages
from conformance.table import Row
from conformance.world import Shell, Transcript, World

INSTALL = "pip install rocm[libraries] --pre -f ${PACKAGES_DIR}/dist"
# Everything that comes here at one time or another; pip passes over what is not there.
LEAVE = (
    "pip uninstall --yes rocm rocm-profiler rocm-sdk-core rocm-sdk-devel rocm-sdk-libraries-gfx110x-all "
    "rocm-sdk-libraries-gfx94x-dcgpu"
)


def chosen_packages(world: World) -> Transcript:
    """One environment into which packages of three families come and go."""

    def play(shell: Shell) -> dict[str, object]:
        shell.variables["PACKAGES_DIR"] = str(local_packages(world).home / "tmp/packages")
        offline(shell)
        site = environment(shell, "project")
        # The documents name no index for the profilers: pip looks where it is set to look.
        shell.variables["PIP_FIND_LINKS"] = f"{shell.variables['PACKAGES_DIR']}/dist"
        shell("pip install rocm-profiler", "CL-61", more="--pre")
        shell("pip list --format=json", "CL-61")
        shell(LEAVE)
        shell('pip install "rocm[profiler]"', "CL-60", "NM-16", more="--pre")
        shell("pip list --format=json", "CL-60", "NM-16")
        shell("rocprof-compute --version && rocprof-sys-run one && rocprofv3 two && rocprof-attach", "CL-60")
        shell(LEAVE)
        _families(shell)
        return {"site": str(site)}

    return world.scene("chosen-packages", play)


def _families(shell: Shell) -> None:
    shell(INSTALL, "EV-05", env={"ROCM_SDK_TARGET_FAMILY": "gfx9999"}, code=None)
    shell(INSTALL, "EV-05", "FL-18", env={"ROCM_SDK_TARGET_FAMILY": "gfx94x-DCGPU"})
    shell("rocm-sdk targets", "EV-05")
    shell(LEAVE)
    shell("pip install rocm[libraries,devel]", "NM-16", "NM-04", "EV-05", more="--pre")
    shell("pip list --format=json", "NM-16", "NM-04")
    shell("rocm-sdk version --json", "EV-05")


@row("CL-60")
def the_profilers_come_with_core(world: World, row: Row) -> None:
    _, listed, ran = chosen_packages(world).all_of(row.id)
    assert installed(listed) == dict.fromkeys(("rocm", "rocm-sdk-core", "rocm-profiler"), VERSION)
    called = ["rocprof-compute --version", "rocprof-sys-run one", "rocprofv3 two", "rocprof-attach"]
    assert [line.strip() for line in ran.out.splitlines()] == called


@row("CL-61")
def the_profilers_alone_bring_nothing_along(world: World, row: Row) -> None:
    install, listed = chosen_packages(world).all_of(row.id)
    assert installed(listed) == {"rocm-profiler": VERSION}
    assert install.code == 0


@row("NM-04", "NM-16")
def the_extras_bring_their_packages(world: World, row: Row) -> None:
    """`profiler`, then `libraries,devel`; `libraries` alone is EV-05's."""
    *_, install, listed = chosen_packages(world).all_of(row.id)
    assert "rocm[libraries,devel]" in install.line
    names = {"rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx110x-all", "rocm-sdk-devel"}
    assert installed(listed) == dict.fromkeys(names, VERSION)


@row("FL-18")
def the_options_of_pip_have_two_spellings(world: World, row: Row) -> None:
    long, short = installed_packages(world).of(row.id), chosen_packages(world).of(row.id)
    assert "--pre --find-links=" in long.line
    assert "--pre -f " in short.line
    # Only with --pre a development version counts, and only there it can have come from.
    for done in (long, short):
        assert f" rocm-sdk-core-{VERSION}" in done.out.splitlines()[-1]


@row("EV-05")
def the_variable_chooses_the_family_and_a_wrong_one_lists_all(world: World, row: Row) -> None:
    wrong, install, targets, default, facts = chosen_packages(world).all_of(row.id)
    assert wrong.code != 0
    said = wrong.out + wrong.err
    assert "ROCM_SDK_TARGET_FAMILY=gfx9999 is not available" in said
    for family in ("gfx110X-all (gfx1100)", "gfx120X-all (gfx1201)", "gfx94X-dcgpu (gfx942)"):
        assert family in said
    assert f"rocm-sdk-libraries-gfx94x-dcgpu-{VERSION}" in install.out
    assert targets.out.split() == ["gfx942"]
    # Without the variable and without a GPU it is the family that the sdist falls back to.
    assert f"rocm-sdk-libraries-gfx110x-all-{VERSION}" in default.out
    chosen = json.loads(facts.out)
    assert (chosen["family"], chosen["selected_by"]) == ("gfx110X-all", "default")
