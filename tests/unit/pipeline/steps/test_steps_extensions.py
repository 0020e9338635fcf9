"""The sources of what stands on torch in a run: one sdist, locked, the same bytes for every machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from index_server import IndexServer, serving, wheel
from miniature_extension import miniature_sdist
from rocwright.builder.decide.extension import Extension
from rocwright.data.overlay import read_overlay
from rocwright.engine.graph import Inputs
from rocwright.engine.record import digest
from rocwright.errors import IntegrityError, UsageError
from rocwright.model.edits import Edit
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.extension_sources import (
    LockedExtension,
    lock_extension_step,
    sources_of_extensions,
    unpacked,
)
from rocwright.pipeline.steps.extensions import build_extension_step
from rocwright.pipeline.steps.testing import wheel_requirements
from rocwright.pipeline.steps.torch import remove_older
from rocwright.system.files import sha256_file


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """The user's index; it has one sdist, and of another project a wheel alone."""
    folder = tmp_path / "index"
    miniature_sdist(folder, "mini-areas")
    wheel(folder, "wheel-only", "1.0")
    with serving(folder) as found:
        monkeypatch.setenv("PIP_INDEX_URL", found.url("simple/"))
        yield found


def locked(tmp_path: Path, text: str) -> LockedExtension:
    options = RunOptions(
        Workspace(tmp_path / "work"), tmp_path / "cache", ("gfx90a",), "release/2.9", extension=text
    )
    step = lock_extension_step(options)
    value = step.act(Inputs({}), lambda _: None)
    assert isinstance(value, LockedExtension)
    assert [path.is_file() for path in step.outputs(value)] == [True], "other machines get it from the store"
    return value


def test_the_sdist_of_a_version_is_locked_by_its_digest(index: IndexServer, tmp_path: Path) -> None:
    found = locked(tmp_path, "mini-areas==1.0")
    there = tmp_path / "index" / "mini_areas-1.0.tar.gz"
    assert (found.project, found.version, found.sha256) == ("mini-areas", "1.0", sha256_file(there))
    assert Path(found.path) == tmp_path / "work" / "extensions" / "mini-areas" / there.name
    assert found.origin.startswith("http://127.0.0.1") and found.origin.endswith(there.name)
    said: list[str] = []
    row = Extension("mini-areas", edits=(Edit("setup.py", find='license="MIT"', put='license="BSD"'),))
    tree = unpacked(found, row, tmp_path / "src", said.append)
    assert (Path(tree.directory) / "mini_areas" / "csrc" / "module.cpp").is_file()
    assert 'license="BSD"' in (Path(tree.directory) / "setup.py").read_text()
    assert said == ["setup.py is changed, as its row in extensions.toml says"]
    assert (tree.project, tree.version, tree.sha256) == ("mini-areas", "1.0", found.sha256)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mini-areas==2.0", "has no mini-areas==2.0, but sdists of 1.0"),
        ("wheel-only==1.0", "wheel-only==1.0 has wheels on .* and no sdist"),
        ("unknown==1", "has no unknown==1, and no other sdist of it"),
    ],
)
def test_what_has_no_sdist_says_what_there_is(
    index: IndexServer, tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        locked(tmp_path, text)
    assert not list((tmp_path / "work").rglob("*.tar.gz"))


def test_another_archive_than_was_locked_is_not_built(index: IndexServer, tmp_path: Path) -> None:
    found = locked(tmp_path, "mini-areas==1.0")
    Path(found.path).unlink()
    miniature_sdist(Path(found.path).parent, "mini-areas", broken=True)
    with pytest.raises(IntegrityError, match=rf"{found.sha256} was locked"):
        unpacked(found, Extension("mini-areas"), tmp_path / "src", lambda _: None)


def test_a_set_says_where_the_extensions_that_it_has_came_from(tmp_path: Path) -> None:
    areas, lost = (
        LockedExtension(name, "1.0", "/x.tar.gz", digest * 64, "https://pypi.example/x.tar.gz")
        for name, digest in (("mini-areas", "a"), ("lost", "b"))
    )
    files = [tmp_path / "mini_areas-1.0+rocm7.1-cp312-cp312-linux_x86_64.whl", tmp_path / "rocm-7.1.tar.gz"]
    assert sources_of_extensions(Inputs({"one": areas, "other": lost}), files) == {
        "mini-areas": f"1.0 sha256:{'a' * 64}"
    }


def test_what_is_installed_has_the_extensions_that_are_there() -> None:
    files = [
        "torch-2.9.0+rocm7.1-cp312-cp312-linux_x86_64.whl",
        "torch_scatter-2.1.2+rocm7.1-cp312-cp312-linux_x86_64.whl",
        "amd_torch_scatter_device_gfx90a-2.1.2+rocm7.1-cp312-cp312-linux_x86_64.whl",
    ]
    assert wheel_requirements(files, ["torch"], ["torch-scatter", "torch-sparse"]) == (
        "torch==2.9.0+rocm7.1",
        "torch-scatter[device-all]==2.1.2+rocm7.1",
    )


def test_only_wheels_of_the_same_project_are_older_ones(tmp_path: Path) -> None:
    names = ["torch_scatter-2.1.1-cp312-cp312-linux_x86_64.whl", "torch-2.9.0-cp312-cp312-linux_x86_64.whl"]
    for name in names:
        (tmp_path / name).touch()
    remove_older(tmp_path, "torch-scatter")
    assert [path.name for path in tmp_path.iterdir()] == names[1:]


def test_only_its_own_row_builds_an_extension_anew(tmp_path: Path) -> None:
    """Wheels may take hours: that another project was found out about makes none of them stale."""

    def facts(*rows: str) -> str:
        tables = tmp_path / "rocwright.toml"
        tables.write_text("".join(f"[[extensions.extension]]\n{row}\n" for row in rows))
        options = RunOptions(
            Workspace(tmp_path),
            tmp_path / "cache",
            ("gfx90a",),
            "release/2.9",
            extension="mini-areas==1.0",
            overlay=read_overlay(tables),
        )
        return digest(build_extension_step(options, ()).facts())

    plain, own = 'project = "other"', 'project = "mini-areas"\nenv = { MINI = "1" }'
    assert facts() == facts(plain)
    assert len({facts(), facts(own), facts(own.replace("1", "2"))}) == 3
