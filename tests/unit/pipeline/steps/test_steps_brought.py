"""ROCm from elsewhere: a tarball, what a command makes, the packages of another tool's run."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import msgspec
import pytest

from index_server import serving
from rocwright.engine.graph import Inputs, Step
from rocwright.errors import CommandFailed, InvalidArchive, InvalidInput, RocwrightError
from rocwright.model.plan import Rocm
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.of_cell import steps_of_kind
from rocwright.pipeline.steps.rocm import Pinned
from rocwright.sdk.build import BuiltPackages
from rocwright.store.objects.local import LocalStore
from unit.sdk.sdk_trees import small_rocm
from wheels import write_sdist, write_wheel

_TARGETS = ("gfx1100", "gfx1101")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_rocm(tmp_path_factory.mktemp("given") / "rocm-6.4", targets=_TARGETS)


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=_TARGETS,
        families=("gfx110X-all",),
        torch_ref="release/2.9",
        run_id="2",
        group="gfx110X-all",
        objects=LocalStore(tmp_path / "store"),
    )


def act(step: Step, **inputs: object) -> object:
    return step.act(Inputs(inputs), lambda _: None)  # type: ignore[arg-type]


def artifacts(options: RunOptions) -> Pinned:
    (step,) = steps_of_kind("rocm-artifacts", options, ())
    done = act(step)
    assert isinstance(done, Pinned)
    return done


def packages(options: RunOptions, pinned: Pinned) -> BuiltPackages:
    (step,) = steps_of_kind("rocm-packages", options, ("rocm-artifacts",))
    done = act(step, **{"rocm-artifacts": pinned})
    assert isinstance(done, BuiltPackages)
    return done


def tarball(prefix: Path, path: Path, arcname: str) -> Path:
    with tarfile.open(path, f"w:{path.suffix[1:]}") as tar:
        tar.add(prefix, arcname=arcname)
    return path


@pytest.mark.parametrize(("ending", "arcname"), [("tar.gz", "."), ("tar.gz", "rocm-6.4"), ("tar.xz", "x")])
def test_a_tarball_of_an_installation_becomes_packages(
    ending: str, arcname: str, prefix: Path, options: RunOptions, tmp_path: Path
) -> None:
    path = tarball(prefix, tmp_path / f"therock-dist-linux.{ending}", arcname)
    options = msgspec.structs.replace(options, rocm=Rocm("tarball", str(path)))
    pinned = artifacts(options)
    done = packages(options, pinned)
    assert done.version == "6.4.1"
    assert done.targets == _TARGETS
    assert {path.name.split("-")[0] for path in done.paths} >= {"rocm", "rocm_sdk_core", "rocm_sdk_devel"}


def test_a_tarball_comes_from_an_address_too(prefix: Path, options: RunOptions, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    tarball(prefix, tmp_path / "served" / "rocm.tar.gz", ".")
    with serving(tmp_path / "served") as server:
        options = msgspec.structs.replace(options, rocm=Rocm("tarball", server.url("files/rocm.tar.gz")))
        assert packages(options, artifacts(options)).version == "6.4.1"


@pytest.mark.parametrize("what", ["missing", "cut", "not-rocm", "out"])
def test_a_tarball_that_is_none_of_rocm_is_named(
    what: str, prefix: Path, options: RunOptions, tmp_path: Path
) -> None:
    path = tmp_path / "rocm.tar.gz"
    if what == "cut":
        tarball(prefix, path, ".")
        path.write_bytes(path.read_bytes()[:-2000])
    elif what in ("not-rocm", "out"):
        (tmp_path / "x").write_text("x")
        tarball(tmp_path / "x", path, "../x" if what == "out" else "bin/x")
    options = msgspec.structs.replace(options, rocm=Rocm("tarball", str(path)))
    with pytest.raises(RocwrightError) as told:
        packages(options, artifacts(options))
    assert "rocm" in str(told.value)
    assert isinstance(told.value, (InvalidArchive, InvalidInput))
    assert not list(options.workspace.rocm_wheels.glob("*.whl"))
    assert not (tmp_path / "x.out").exists()


def test_a_command_makes_rocm_where_it_is_told(prefix: Path, options: RunOptions) -> None:
    line = f'cd "$ROCWRIGHT_ROCM_DIR" && cp -a {prefix}/. . && echo "$ROCWRIGHT_ROCM_TARGETS" > asked'
    options = msgspec.structs.replace(options, rocm=Rocm("command", line))
    pinned = artifacts(options)
    (step,) = steps_of_kind("rocm-artifacts", options, ())
    (made,) = step.outputs(pinned)
    assert isinstance(made, Path)
    assert (made / "asked").read_text() == "gfx1100;gfx1101\n"
    # Another machine has what the step left, not the command's tree.
    shutil.copytree(made, made.with_name("elsewhere"), symlinks=True)
    assert packages(options, pinned).targets == _TARGETS


def test_a_command_that_fails_or_makes_nothing_ends_the_step(options: RunOptions) -> None:
    with pytest.raises(CommandFailed) as failed:
        artifacts(msgspec.structs.replace(options, rocm=Rocm("command", "echo no compiler >&2; exit 3")))
    assert "no compiler" in str(failed.value)
    with pytest.raises(InvalidInput, match=r"left nothing in \$ROCWRIGHT_ROCM_DIR"):
        artifacts(msgspec.structs.replace(options, rocm=Rocm("command", "true")))


def test_packages_of_a_run_without_records_are_taken_as_they_lie(options: RunOptions, tmp_path: Path) -> None:
    # As TheRock's workflows leave them: a folder of files, and a page.
    folder = tmp_path / "therock" / "17-linux" / "python" / "gfx110X-all"
    folder.mkdir(parents=True)
    write_sdist(folder, "rocm", "7.1")
    for project in ("rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx1100"):
        files = {f"{project.replace('-', '_')}/data.bin": b"x" * 1000}
        write_wheel(folder, project, "7.1", files, tag="py3-none-linux_x86_64")
    (folder / "index.html").write_text("<a href='rocm-7.1.tar.gz'>rocm</a>")
    other = str(tmp_path / "therock")
    options = msgspec.structs.replace(options, rocm=Rocm("packages", "17", store=other))
    (step,) = steps_of_kind("rocm-packages", options, ())
    done = act(step)
    assert isinstance(done, BuiltPackages)
    assert (done.version, done.targets, len(done.files)) == ("7.1", ("gfx1100",), 4)
    assert not (tmp_path / "store").exists(), "the run's own store is left alone"
