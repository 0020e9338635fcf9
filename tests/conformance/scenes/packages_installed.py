"""Built packages in plain environments: installed from a directory and from a page, and their self test."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from conformance.scenes.packages import VERSION, WHEEL, family_packages
from conformance.table import Row, row
from conformance.world import Done, Shell, Transcript, World

LIBRARY = "_rocm_sdk_libraries_gfx110x_all/lib/librccl.so.1"


def installed_packages(world: World) -> Transcript:
    """Two environments without rocwright, into which the packages are installed as printed."""

    def play(shell: Shell) -> dict[str, object]:
        shell.variables["PACKAGES_DIR"] = str(family_packages(world).facts["packages"])
        offline(shell)
        plain = dict(shell.variables)
        site = environment(shell, "first")
        shell(
            "pip install rocm[libraries,devel] --pre --find-links=${PACKAGES_DIR}/dist",
            *("CL-57", "FL-18"),
        )
        _tested(shell, site)
        shell("pip list --format=json", "CL-57")
        # Another terminal: the indexer is a script of the repository, and needs rocwright.
        shell.variables = dict(plain)
        shell.world.activate(shell)
        shell("cd ~/rocwright")
        shell(
            'python ./third-party/indexer/indexer.py ${PACKAGES_DIR}/dist --filter "*.whl" "*.tar.gz"',
            *("CL-58", "FL-19", "FD-46"),
        )
        shell.variables = dict(plain)
        environment(shell, "second")
        shell(
            "pip install rocm[libraries,devel] --pre --find-links=${PACKAGES_DIR}/dist/index.html",
            *("CL-59", "FD-46"),
        )
        shell("rocm-sdk test", "CL-12", "CL-59")
        # Half a gigabyte that nobody looks at any more.
        shutil.rmtree(shell.home / "second")
        return {"dist": f"{shell.variables['PACKAGES_DIR']}/dist"}

    return world.scene("installed-packages", play)


def offline(shell: Shell) -> None:
    """Nothing but what was built: an index of the same names elsewhere would be a chance.

    pip keeps no wheel that it made of the sdist either: it would bring the family of one environment into
    the next.
    """
    shell.variables |= {"PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1"}


def environment(shell: Shell, name: str) -> Path:
    """Change to a new directory, make the environment that the document makes; its site-packages."""
    shell(f"mkdir ~/{name} && cd ~/{name}")
    shell("python -m venv .venv && source .venv/bin/activate")
    (site,) = (shell.home / name / ".venv/lib").glob("python3*/site-packages")
    return site


def _tested(shell: Shell, site: Path) -> None:
    shell("rocm-sdk test", "CL-12", "NM-20")
    for words in ("version", "path --root", "path --bin", "path --cmake"):
        shell(f"rocm-sdk {words}", "NM-20")
    names = "[module.name for module in pkgutil.iter_modules() if module.name.startswith('rocm')]"
    shell(f'python -c "import json, pkgutil; print(json.dumps({names}))"', "NM-15")
    library = site / LIBRARY
    library.rename(library.with_suffix(".aside"))
    shell("rocm-sdk test", "CL-12", "NM-20", code=None)
    library.with_suffix(".aside").rename(library)


@row("CL-12")
def the_self_test_passes_and_a_damage_is_found(world: World, row: Row) -> None:
    whole, damaged, second = installed_packages(world).all_of(row.id)
    for done in (whole, second):
        assert done.code == 0
        assert " 0 failed" in done.out
    assert damaged.code != 0
    assert "rccl" in damaged.out + damaged.err


@row("CL-57")
def pip_installs_from_the_directory(world: World, row: Row) -> None:
    scene = installed_packages(world)
    assert installed(scene.of(row.id)) == {
        "rocm": VERSION,
        "rocm-sdk-core": VERSION,
        "rocm-sdk-libraries-gfx110x-all": VERSION,
        "rocm-sdk-devel": VERSION,
    }


def installed(listed: Done) -> dict[str, str]:
    """What `pip list` says, less what every environment has."""
    own = ("pip", "setuptools", "wheel")
    return {one["name"]: one["version"] for one in json.loads(listed.out) if one["name"] not in own}


@row("CL-58", "FL-19", "FD-46")
def the_page_lists_what_the_filters_let_through(world: World, row: Row) -> None:
    scene = installed_packages(world)
    scene.of(row.id)
    page = (Path(str(scene.facts["dist"])) / "index.html").read_text()
    for name in (f"rocm-{VERSION}.tar.gz", f"rocm_sdk_core-{WHEEL}", f"rocm_profiler-{WHEEL}"):
        assert f'href="{name}#sha256=' in page
    # Five packages; the record that the build keeps beside them is not on the page.
    assert page.count("<a ") == 5
    assert "json" not in page


@row("CL-59")
def pip_installs_from_the_page(world: World, row: Row) -> None:
    scene = installed_packages(world)
    install, test = scene.all_of(row.id)
    assert f"rocm-{VERSION} rocm-sdk-core-{VERSION} rocm-sdk-devel-{VERSION}" in install.out
    assert f"{scene.facts['dist']}/index.html" in install.out
    assert test.code == 0


@row("NM-15")
def the_import_name_is_rocm_sdk_and_never_rocm(world: World, row: Row) -> None:
    found = json.loads(installed_packages(world).of(row.id).out)
    assert "rocm_sdk" in found
    assert "rocm" not in found


@row("NM-20")
def the_tool_says_version_and_paths(world: World, row: Row) -> None:
    scene = installed_packages(world)
    _, version, root, programs, cmake, _ = scene.all_of(row.id)
    assert version.out == f"{VERSION}\n"
    tree = Path(root.out.strip())
    assert tree.is_relative_to(scene.home / "first/.venv")
    assert programs.out.strip() == str(tree / "bin")
    assert cmake.out.strip() == str(tree / "lib/cmake")
    # The development files are links to what the packages of the run time have, and files of their own.
    hip = tree / "lib/libamdhip64.so.5"
    assert hip.is_symlink()
    assert not hip.readlink().is_absolute()
    assert hip.resolve().parent.parent.name == "_rocm_sdk_core"
    assert (tree / "include/rocblas/rocblas.h").read_text() == "// rocBLAS\n"
