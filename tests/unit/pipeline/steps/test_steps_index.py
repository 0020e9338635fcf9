"""ROCm's packages of an index or a page: what is taken of it, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from index_server import IndexServer, multi_arch, serving
from rocwright.engine.graph import Inputs
from rocwright.errors import IntegrityError, InvalidInput, Unreachable
from rocwright.model.plan import Rocm
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.index import index_address, index_artifacts_step, index_packages_step
from rocwright.pipeline.steps.rocm import Pinned
from rocwright.sdk.build import BuiltPackages

_NEWEST = "7.12.0a20260430"


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return multi_arch(tmp_path_factory.mktemp("offered"))


@pytest.fixture
def index(offered: Path) -> Iterator[IndexServer]:
    with serving(offered) as server:
        yield server


@pytest.fixture
def options(tmp_path: Path, index: IndexServer) -> RunOptions:
    return RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=("gfx942",),
        families=("gfx94X-dcgpu",),
        torch_ref="release/2.10",
        rocm=Rocm("index", index.url()),
    )


def pin(options: RunOptions) -> Pinned:
    done = index_artifacts_step(options).act(Inputs({}), lambda _: None)
    assert isinstance(done, Pinned)
    return done


def take(options: RunOptions, pinned: Pinned) -> BuiltPackages:
    done = index_packages_step(options).act(Inputs({"rocm-artifacts": pinned}), lambda _: None)
    assert isinstance(done, BuiltPackages)
    return done


@pytest.mark.parametrize("kind", ["index", "page"])
def test_the_newest_rocm_is_pinned_without_a_download_and_then_fetched(
    kind: str, options: RunOptions, index: IndexServer, offered: Path
) -> None:
    options = msgspec.structs.replace(
        options, rocm=Rocm("index", index.url()) if kind == "index" else Rocm("page", index.url("flat.html"))
    )
    pinned = pin(options)
    assert not index.whole()
    assert all(_NEWEST in name for name in pinned.files)
    devices = [name for name in pinned.files if "device" in name]
    assert [name.split("-")[0] for name in devices] == ["rocm_sdk_device_gfx942"]
    assert "torch" not in " ".join(pinned.files)
    done = take(options, pinned)
    assert (done.version, done.mode, done.targets) == (_NEWEST, "kpack", ("gfx942",))
    assert [path.name for path in done.paths] == sorted(pinned.files)
    for path in done.paths:
        assert path.read_bytes() == (offered / path.name).read_bytes()


def test_a_version_is_taken_by_its_name(options: RunOptions) -> None:
    older = msgspec.structs.replace(options, rocm=Rocm("index", options.rocm.at, version="7.12.0a20260426"))
    assert all("7.12.0a20260426" in name for name in pin(older).files)
    none = msgspec.structs.replace(options, rocm=Rocm("index", options.rocm.at, version="7.99"))
    with pytest.raises(InvalidInput, match="has no rocm that matches"):
        pin(none)


def test_a_target_without_code_is_refused(options: RunOptions) -> None:
    with pytest.raises(
        InvalidInput, match="has no code for gfx1151; it has code for gfx942, gfx1100, gfx1201"
    ):
        pin(msgspec.structs.replace(options, targets=("gfx942", "gfx1151")))


def test_packages_for_another_platform_are_no_packages(options: RunOptions) -> None:
    with pytest.raises(InvalidInput, match="without rocm-sdk-core for windows"):
        pin(msgspec.structs.replace(options, platform="windows"))


def test_other_bytes_than_were_pinned_are_refused(options: RunOptions) -> None:
    pinned = pin(options)
    name = next(iter(pinned.files))
    other = Pinned(pinned.kind, pinned.what, {**pinned.files, name: "0" * 64}, pinned.size)
    with pytest.raises(IntegrityError, match=name.split("-")[0]):
        take(options, other)
    gone = Pinned(pinned.kind, pinned.what, {"rocm-7.99.tar.gz": "0" * 64}, 1)
    with pytest.raises(InvalidInput, match=r"no longer offers rocm-7\.99\.tar\.gz"):
        take(options, gone)


def test_an_index_that_is_not_there_is_told(options: RunOptions, index: IndexServer) -> None:
    with pytest.raises(Unreachable, match="nothing-here"):
        pin(msgspec.structs.replace(options, rocm=Rocm("index", index.url("nothing-here/"))))


def test_a_folder_for_each_family_is_that_of_the_group() -> None:
    each = Rocm("index", "https://each.example/v2", by_family=True)
    assert index_address(each, ("gfx94X-dcgpu",)) == "https://each.example/v2/gfx94X-dcgpu/"
    with pytest.raises(InvalidInput, match="a folder for each family, and this group has 2"):
        index_address(each, ("gfx94X-dcgpu", "gfx110X-all"))
    assert index_address(Rocm("index", "https://all.example/"), ("a", "b")) == "https://all.example/"
