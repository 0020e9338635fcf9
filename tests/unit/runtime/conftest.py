"""Fixtures for runtime/: compiled libraries, wheels, an unpacked site-packages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import fake_rocm as fake
import pytest


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return fake.compile_libraries(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory, libraries) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("wheels")
    return {
        "rocm": fake.build_rocm(directory),
        "core": fake.core_wheel(directory, libraries),
        "libraries": fake.libraries_wheel(directory, libraries),
        "other": fake.libraries_wheel(directory, libraries, family=fake.OTHER),
        "devel": fake.devel_wheel(directory),
        "profiler": fake.profiler_wheel(directory),
    }


@pytest.fixture(scope="session")
def kpack_wheels(tmp_path_factory: pytest.TempPathFactory, libraries, wheels) -> dict[str, Path]:
    """The same ROCm in kpack mode; a device package is known by its word."""
    directory = tmp_path_factory.mktemp("kpack-wheels")
    return {
        "rocm": fake.build_rocm(directory, rocm_set=fake.KPACK_SET),
        "core": wheels["core"],
        "profiler": wheels["profiler"],
        "libraries": fake.libraries_wheel(directory, libraries, family=None),
        "devel": fake.devel_wheel(directory, entries=fake.KPACK_ENTRIES),
        **{word: fake.device_wheel(directory, word) for word in fake.KPACK_SET["devices"]},
    }


@pytest.fixture
def kpack_site(tmp_path: Path, kpack_wheels) -> Path:
    """site-packages with rocm, core and libraries of kpack mode, without any device package."""
    names = ("rocm", "core", "libraries")
    return fake.unpack(tmp_path / "kpack-site", *(kpack_wheels[name] for name in names))


@pytest.fixture
def site(tmp_path: Path, wheels) -> Path:
    """site-packages with rocm, core, libraries and devel."""
    return fake.unpack(tmp_path / "site", *(wheels[n] for n in ("rocm", "core", "libraries", "devel")))


@pytest.fixture
def in_process(site: Path, monkeypatch: pytest.MonkeyPatch):
    """rocm_sdk._devel of `site`, imported into the test's own process and forgotten afterwards."""

    def forget() -> None:
        for name in [n for n in sys.modules if n.split(".")[0].lstrip("_").startswith("rocm_sdk")]:
            del sys.modules[name]

    for name in [n for n in os.environ if n.startswith("ROCM_")]:
        monkeypatch.delenv(name)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget()
    from rocm_sdk import _devel

    yield _devel
    forget()
