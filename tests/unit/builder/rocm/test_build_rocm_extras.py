"""Extras that a ROCm does not offer: pip warns and goes on, a build must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.builder.rocm import own
from rocwright.builder.rocm.install import install_rocm
from rocwright.builder.rocm.rocm import offered_extras, unknown_rocm
from rocwright.errors import InvalidInput
from rocwright.system import venv
from rocwright.system.venv import Closed
from unit.builder.rocm import rocm_wheels


@pytest.fixture
def places(tmp_path: Path) -> Closed:
    rocm_wheels.make_wheel(tmp_path / "dist", "7.10.0")
    return Closed(None, (str(tmp_path / "dist"),))


@pytest.mark.slow
def test_an_extra_that_is_not_offered(tmp_path: Path, places: Closed) -> None:
    environment = venv.create(tmp_path / "env")
    log = tmp_path / "log"
    with pytest.raises(InvalidInput) as refused:
        install_rocm(environment, places, extras=("device-gfx942", "nothere"), log=log)
    assert refused.value.what == "ROCm 7.10.0 offers no extra nothere"
    assert refused.value.next_step == "--rocm-extras can name: device-gfx942"
    # However it is written.
    assert install_rocm(environment, places, extras=("Device_gfx942",), log=log).version == "7.10.0"


@pytest.mark.slow
def test_a_builds_own_environment_stays_as_it_was(tmp_path: Path, places: Closed) -> None:
    root, log = tmp_path / "work" / "rocm", tmp_path / "log"
    own.rocm_environment(root, places, extras=("device-gfx942",), log=log, note=print)
    before = root.resolve()
    with pytest.raises(InvalidInput, match="offers no extra nothere"):
        own.rocm_environment(root, places, extras=("nothere",), log=log, note=print)
    assert root.resolve() == before
    assert sorted(path.name for path in root.parent.iterdir()) == ["rocm", "rocm.1"]


def test_what_is_no_package_offers_none() -> None:
    assert offered_extras(unknown_rocm()) == frozenset()
