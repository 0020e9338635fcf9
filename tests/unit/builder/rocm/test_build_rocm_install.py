"""pip, real indexes on this machine, and a `rocm` of a few kilobytes."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from real import sdk_index
from rocwright.builder.rocm import own
from rocwright.builder.rocm.describe import describe_rocm
from rocwright.builder.rocm.install import install_rocm
from rocwright.builder.rocm.rocm import Rocm
from rocwright.errors import CommandFailed, InvalidInput, UsageError
from rocwright.system import venv
from rocwright.system.venv import Closed, Environment
from unit.builder.rocm import rocm_wheels


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return venv.create(tmp_path / "env")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture(autouse=True)
def quick_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip-cache"))


def answers(environment: Environment, *, main: str = rocm_wheels.MAIN, without: str = "nothing") -> None:
    """Put the package into an environment without an installer."""
    import zipfile

    wheel = rocm_wheels.make_wheel(environment.root / "x", "7.10.0", main=main, without=without)
    (site,) = environment.root.glob("lib/python3*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


@pytest.mark.slow
def test_an_index_that_shows_it_later_is_waited_for(
    tmp_path: Path, environment: Environment, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the caller has of ROCm elsewhere says nothing about this one, and is not asked.
    for name in ("ROCM_HOME", "ROCM_PATH", "HIP_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    rocm_wheels.make_wheel(tmp_path / "elsewhere", "99.0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    said: list[str] = []
    uploaded = rocm_wheels.make_wheel(tmp_path / "upload", "7.10.0a20251124")
    (tmp_path / "empty").mkdir()
    with sdk_index.serving(tmp_path / "empty") as index:

        def note(text: str) -> None:
            said.append(text)
            if len(said) == 2:
                index.files[uploaded.name] = uploaded

        rocm = install_rocm(
            environment,
            Closed(index.url.replace("http://", "http://me:hunter2@")),
            spec=">=7.10.0a1,<8",
            extras=("device-gfx942",),
            index_wait_s=60,
            index_every_s=0.05,
            log=log,
            note=note,
        )
        asked = index.asked
    (site,) = environment.root.glob("lib/python3*/site-packages")
    tree = site / "rocm_sdk" / "tree"
    assert rocm.version == "7.10.0a20251124"
    assert (rocm.root, rocm.bin, rocm.cmake) == (str(tree), f"{tree}/bin", f"{tree}/lib/cmake")
    assert rocm.device_libraries == f"{tree}/lib/llvm/amdgcn/bitcode"
    assert rocm.sysdeps == f"{tree}/lib/rocm_sysdeps"
    assert rocm.targets == ("gfx942", "gfx1100")
    assert rocm.libraries == ("amdhip64", "hipblas")
    assert (rocm.site, rocm.origin) == (str(site), "packages")
    # Twice in vain, each said aloud; then the page and the file. Once pip was asked what is wrong.
    assert said == [text for text in said if "does not show the packages yet; trying again in 0 s" in text]
    assert len(said) == 2
    assert [path for path in asked if "simple" in path] == ["/simple/rocm/"] * 4
    text = log.read_text()
    assert text.count(" install --no-input") == 4, "three times the same command, once aloud why"
    assert "hunter2" not in text and "***@127.0.0.1" in text


@pytest.mark.slow
def test_a_version_that_never_comes(tmp_path: Path, environment: Environment, log: Path) -> None:
    rocm_wheels.make_wheel(tmp_path / "dist", "7.10.0")
    said: list[str] = []
    with sdk_index.serving(tmp_path / "dist") as index, pytest.raises(CommandFailed) as failed:
        install_rocm(
            environment,
            Closed(index.url),
            spec="==9.0",
            index_wait_s=0.01,
            index_every_s=60,
            log=log,
            note=said.append,
        )
    assert len(said) == 1
    assert "7.10.0" in failed.value.tail, "what the index does have"
    assert "rocm[libraries,devel]==9.0 was not found" in str(failed.value.next_step)


def test_a_directory_is_not_waited_for(tmp_path: Path, environment: Environment, log: Path) -> None:
    rocm_wheels.make_wheel(tmp_path / "dist", "7.10.0")
    said: list[str] = []
    with pytest.raises(CommandFailed):
        install_rocm(
            environment, Closed(None, (str(tmp_path / "dist"),)), spec="==9.0", log=log, note=said.append
        )
    assert said == []


@pytest.mark.slow
@pytest.mark.parametrize("status", [401, 403])
def test_an_index_that_lets_nobody_in_is_not_asked_again(
    environment: Environment, log: Path, status: int
) -> None:
    said: list[str] = []
    with rocm_wheels.refusing(status) as (address, asked), pytest.raises(CommandFailed) as failed:
        place = Closed(f"http://me:hunter2@{address}")
        install_rocm(environment, place, index_wait_s=0.01, log=log, note=said.append)
    assert said == []
    assert asked
    assert "login" in str(failed.value.next_step)
    assert "hunter2" not in str(failed.value) + log.read_text()


@pytest.mark.slow
def test_a_download_that_broke_off_is_begun_again(
    tmp_path: Path, environment: Environment, log: Path
) -> None:
    said: list[str] = []
    wheel = rocm_wheels.make_wheel(tmp_path / "dist", "7.10.0")
    with rocm_wheels.breaking_off(wheel, times=1) as place:
        rocm = install_rocm(environment, Closed(place), index_every_s=0.01, log=log, note=said.append)
    assert rocm.version == "7.10.0"
    assert len(said) == 1 and said[0].startswith("a download broke off; trying again")


@pytest.mark.slow
def test_a_download_that_never_comes_whole(tmp_path: Path, environment: Environment, log: Path) -> None:
    wheel = rocm_wheels.make_wheel(tmp_path / "dist", "7.10.0")
    with rocm_wheels.breaking_off(wheel, times=99) as place, pytest.raises(CommandFailed) as failed:
        install_rocm(environment, Closed(place), index_wait_s=0, log=log)
    assert "the file above arrives damaged" in str(failed.value.next_step)


@pytest.mark.slow
def test_an_index_that_is_in_trouble(environment: Environment, log: Path) -> None:
    with rocm_wheels.refusing(500) as (address, _), pytest.raises(CommandFailed) as failed:
        install_rocm(environment, Closed(f"http://{address}"), index_wait_s=0, log=log)
    assert "the index answers with errors of its own" in str(failed.value.next_step)


@pytest.mark.slow
def test_an_index_that_does_not_run_yet(tmp_path: Path, environment: Environment, log: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{unused.getsockname()[1]}/simple/"
        said: list[str] = []
        with pytest.raises(CommandFailed) as failed:
            install_rocm(
                environment, Closed(place), index_wait_s=0.01, index_every_s=9, log=log, note=said.append
            )
    assert len(said) == 1 and "does not answer yet" in said[0]
    assert "nothing answers at the address of the index" in str(failed.value.next_step)


# -- what the packages say -----------------------------------------------------------------------------------


def test_packages_without_json(environment: Environment, log: Path) -> None:
    answers(environment, main=rocm_wheels.OLDER_MAIN)
    rocm = describe_rocm(environment, log=log)
    assert rocm.libraries == ("amdhip64",), "of the names it knows, those that are installed"
    assert rocm.targets == ("gfx942", "gfx1100")


def test_the_names_of_device_packages_go_before_an_older_list(environment: Environment, log: Path) -> None:
    answers(environment, main=rocm_wheels.OLDER_MAIN)
    (site,) = environment.root.glob("lib/python3*/site-packages")
    info = site / "rocm_sdk_device_gfx1201-7.10.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rocm-sdk-device-gfx1201\nVersion: 7.10.0\n")
    assert describe_rocm(environment, log=log).targets == ("gfx1201",)


def test_a_failing_question_is_an_error(environment: Environment, log: Path) -> None:
    with pytest.raises(CommandFailed) as failed:
        describe_rocm(environment, log=log)
    assert "install-rocm" in str(failed.value.next_step)


@pytest.mark.parametrize(("old", "new"), [("VERSION,", "'',"), ('str(tree / "bin")', "''")])
def test_an_empty_answer_is_an_error(environment: Environment, log: Path, old: str, new: str) -> None:
    answers(environment, main=rocm_wheels.MAIN.replace(old, new, 1))
    with pytest.raises(InvalidInput):
        describe_rocm(environment, log=log)


def test_development_files_that_are_not_there(environment: Environment, log: Path) -> None:
    answers(environment, without="lib/cmake")
    with pytest.raises(InvalidInput, match="not a directory") as refused:
        describe_rocm(environment, log=log)
    assert "rocm[devel]" in str(refused.value.next_step)


def test_modules_in_the_callers_directory_are_not_asked(
    tmp_path: Path, environment: Environment, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(environment)
    (tmp_path / "rocm_sdk").mkdir()
    (tmp_path / "rocm_sdk" / "__main__.py").write_text("print('6.6.6')")
    monkeypatch.chdir(tmp_path)
    assert describe_rocm(environment, log=log).version == "7.10.0"


# -- the build's own environment -----------------------------------------------------------------------------


def state(root: Path) -> dict[str, int]:
    """Every file of ROCm with the time of its last change."""
    return {
        str(path): path.lstat().st_mtime_ns for path in root.glob("lib/python3*/site-packages/rocm*/**/*")
    }


@pytest.mark.slow
def test_an_environment_of_the_builds_own_is_kept_until_other_packages_are_to_be_had(
    tmp_path: Path, log: Path
) -> None:
    dist, root = tmp_path / "dist", tmp_path / "work" / "env" / "rocm"
    rocm_wheels.make_wheel(dist, "7.10.0")
    places, said = Closed(None, (str(dist),)), list[str]()

    def have(spec: str = ">1.0", places: Closed = places) -> Rocm:
        return own.rocm_environment(root, places, spec=spec, log=log, note=said.append)

    first = have()
    assert first.version == "7.10.0"
    assert first.root.startswith(f"{root}/lib/python3."), "the path stays the same whatever is there"
    before = state(root)
    assert have() == first
    assert have("==7.10.0") == first
    assert state(root) == before
    assert log.read_text().count(" install ") == 1
    # The same file uploaded again is no other package; pip is asked, and says so.
    wheel = dist / "rocm-7.10.0-py3-none-any.whl"
    os.utime(wheel, (1, 1))
    assert have() == first
    assert state(root) == before
    assert log.read_text().count("--dry-run") == 1
    # A newer one is taken, when the specifier allows it.
    rocm_wheels.make_wheel(dist, "7.11.0")
    assert have("==7.10.0") == first
    assert state(root) == before
    newer = have()
    assert newer.version == "7.11.0"
    assert newer.root == first.root
    # What somebody deleted in it is not missed by a build.
    Path(newer.bin, "hipcc").unlink()
    assert have() == newer
    assert Path(newer.bin, "hipcc").is_file()
    assert said[-2:] == [
        f"the ROCm in {root} is damaged (hipcc missing); installing it anew",
        "installing rocm[libraries,devel]>1.0",
    ]
    # A failure leaves what is there.
    before = state(root)
    with pytest.raises(CommandFailed):
        have("==9.9")
    assert state(root) == before
    assert have().version == "7.11.0"
    assert sorted(path.name for path in root.parent.iterdir()) == ["rocm", "rocm.1"]


@pytest.mark.slow
def test_a_killed_installation_is_no_environment(tmp_path: Path, log: Path) -> None:
    dist, root = tmp_path / "dist", tmp_path / "env" / "rocm"
    rocm_wheels.make_wheel(dist, "7.10.0")
    half = root.with_name("rocm.1")
    venv.create(half)
    kept = root.with_name("rocm.notes")
    kept.mkdir()
    assert not root.exists()
    said: list[str] = []
    own.rocm_environment(root, Closed(None, (str(dist),)), log=log, note=said.append)
    assert root.is_symlink()
    assert kept.is_dir()
    assert sorted(path.name for path in root.parent.iterdir()) == [
        "rocm",
        "rocm.1",
        "rocm.notes",
    ]
    # Packages that somebody changed by hand are not taken for those that were installed.
    (info,) = root.glob("lib/python3*/site-packages/rocm-*.dist-info")
    info.rename(info.with_name("rocm-6.0.dist-info"))
    again = own.rocm_environment(root, Closed(None, (str(dist),)), log=log, note=said.append)
    assert again.version == "7.10.0"
    assert root.resolve().name == "rocm.2"


ASKED = own.PackageRequest(">1.0", (), True, "", ("/dist",), "/usr/bin/python3")
REMOTE = own.PackageRequest(">1.0", (), True, "https://host/simple/", (), "/usr/bin/python3")


@pytest.mark.parametrize(
    ("held_for", "asked", "changed", "expected"),
    [
        (ASKED, ASKED, {}, "keep"),
        (ASKED, {"spec": "==7.10.0"}, {}, "keep"),
        (ASKED, {"spec": ">=7"}, {}, "ask"),
        (ASKED, {"spec": "==7.10.*"}, {}, "ask"),
        (ASKED, {"spec": ">8"}, {}, "make"),
        (ASKED, {"extras": ("device-gfx942",)}, {}, "make"),
        (ASKED, {"pre": False}, {}, "make"),
        (ASKED, {"find_links": ("/other",)}, {}, "make"),
        (ASKED, {"python": "/usr/bin/python3.14"}, {}, "make"),
        (ASKED, ASKED, {"local": ["rocm 2 2"]}, "ask"),
        (ASKED, {"spec": "==7.10.0"}, {"local": ["rocm 2 2"]}, "ask"),
        (ASKED, ASKED, {"installed": {}}, "make"),
        (REMOTE, REMOTE, {}, "ask"),
        (REMOTE, {"spec": "==7.10.0"}, {}, "keep"),
        (REMOTE, {"spec": "==7.10.0", "family": "gfx94X-dcgpu"}, {}, "make"),
        (REMOTE, {"index_url": "https://host/other/"}, {}, "make"),
    ],
)
def test_when_an_environment_is_kept(
    held_for: own.PackageRequest,
    asked: own.PackageRequest | dict[str, object],
    changed: dict[str, object],
    expected: str,
) -> None:
    import msgspec

    packages = {"rocm": ("7.10.0", "00")}
    there = own.Held(held_for, "7.10.0", packages, {"rocm": "7.10.0"}, ("rocm 1 1",))
    now: dict[str, object] = {"local": ["rocm 1 1"], "installed": {"rocm": "7.10.0"}, **changed}
    wanted = asked if isinstance(asked, own.PackageRequest) else msgspec.structs.replace(held_for, **asked)
    assert own.decide_reuse(there, wanted, **now) == expected
    assert own.decide_reuse(None, wanted, **now) == "make"


@pytest.mark.slow
def test_logins_are_not_written_down(tmp_path: Path, log: Path) -> None:
    rocm_wheels.make_wheel(tmp_path / "dist", "7.10.0")
    root = tmp_path / "env" / "rocm"
    with sdk_index.serving(tmp_path / "dist") as index:
        place = Closed(index.url.replace("http://", "http://me:hunter2@"))
        for _ in range(2):
            own.rocm_environment(root, place, spec="==7.10.0", log=log, note=lambda text: None)
        assert [path for path in index.asked if "simple" in path] == ["/simple/rocm/"], (
            "an exact version stays"
        )
    stamp = own.read_held(root)
    assert stamp is not None and stamp.asked.index_url == index.url
    assert "hunter2" not in log.read_text() + (root / "rocwright-rocm.json").read_text()


def test_another_directory_is_not_replaced(tmp_path: Path, log: Path) -> None:
    precious = tmp_path / "rocm" / "precious"
    precious.mkdir(parents=True)
    with pytest.raises(UsageError, match="something else is there"):
        own.rocm_environment(tmp_path / "rocm", Closed(None, (str(tmp_path),)), log=log, note=print)
    assert precious.is_dir()


@pytest.mark.parametrize("version", ["3.9", "3.16"])
def test_a_python_that_no_wheels_are_built_for_is_refused_before_pip(
    tmp_path: Path, log: Path, version: str
) -> None:
    said = json.dumps(
        {"path": "/p", "version": version, "full": f"{version}.1", "include": "/i", "has_headers": True}
    )
    python = tmp_path / "other/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{said}'\n")
    python.chmod(0o755)
    wheels = tmp_path / "wheels"
    rocm_wheels.make_wheel(wheels, "7.10.0")
    with pytest.raises(UsageError, match=f"has Python {version}; wheels are built for 3.10 to 3.15"):
        install_rocm(Environment(tmp_path / "other"), Closed(find_links=(str(wheels),)), log=log)
    assert not log.exists(), "pip was called"
