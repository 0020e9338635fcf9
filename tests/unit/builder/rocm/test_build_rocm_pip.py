"""What is said to pip, and what its last words mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.builder.rocm.install import Install, rocm_requirement, satisfies
from rocwright.errors import UsageError
from rocwright.system.venv import Closed, not_yet

INDEX = Closed("https://host/simple/", ("https://host/more/",))
LOCAL = Closed(None, ("/srv/rocm",))
NO_VERSION = (
    "ERROR: Could not find a version that satisfies the requirement rocm==7.10 (from versions: {})\n"
    "ERROR: No matching distribution found for rocm==7.10"
)


def test_a_users_environment_is_installed_anew_from_the_given_places_only() -> None:
    words = Install("rocm>1.0", INDEX, reinstall=True).arguments()
    assert words == [
        "install",
        "--no-input",
        "--index-url",
        "https://host/simple/",
        "--find-links",
        "https://host/more/",
        "--pre",
        "--force-reinstall",
        "rocm>1.0",
    ]


def test_what_lies_on_this_machine_is_not_cached_and_asks_no_index() -> None:
    words = Install("rocm>1.0", LOCAL, pre=False).arguments()
    assert words == [
        "install",
        "--no-input",
        "--no-index",
        "--find-links",
        "/srv/rocm",
        "--no-cache-dir",
        "rocm>1.0",
    ]


def test_a_cache_that_is_named_is_the_one_that_is_cleared() -> None:
    wanted = Install("rocm>1.0", LOCAL, cache_dir=Path("/cache"))
    assert wanted.arguments()[-4:] == ["--cache-dir", "/cache", "--pre", "rocm>1.0"]
    assert wanted.removal() == ["cache", "remove", "rocm", "--cache-dir", "/cache"]
    assert Install("rocm>1.0", INDEX).removal() == ["cache", "remove", "rocm"]


@pytest.mark.parametrize(
    ("tail", "waits"),
    [
        (NO_VERSION.format("none"), True),
        (NO_VERSION.format("7.9, 7.9.1"), True),
        (
            "ERROR: HTTP error 404 while getting http://host/rocm.whl\nERROR: 404 Client Error: Not Found",
            True,
        ),
        ("WARNING: Retrying ... [Errno 111] Connection refused')': /simple/rocm/\n" + NO_VERSION, True),
        ("ERROR: 404 Client Error: Not Found for url: http://host/simple/rocm_sdk_core.whl", True),
        ("ERROR: Wheel 'rocm' located at /tmp/x/rocm-7.10.0-py3-none-any.whl is invalid.", True),
        ("pip._vendor.urllib3.exceptions.IncompleteRead: IncompleteRead(5 bytes read, 9 more)", True),
        ("... (Caused by ResponseError('too many 503 error responses')) - skipping\n" + NO_VERSION, True),
        # These are the same tomorrow.
        ("WARNING: 401 Error, Credentials not correct for http://host/simple/rocm/\n" + NO_VERSION, False),
        ("ERROR: HTTP error 403 while getting http://host/x.whl: 403 Client Error: Forbidden", False),
        ("Could not fetch URL ...: There was a problem confirming the ssl certificate\n" + NO_VERSION, False),
        ("... [Errno -2] Name or service not known')': /simple/rocm/\n" + NO_VERSION, False),
        (
            "ERROR: Ignored the following versions that require a different python version: 7.10 "
            "Requires-Python >=3.20\n" + NO_VERSION,
            False,
        ),
        ("error: externally-managed-environment", False),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", False),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", False),
    ],
)
def test_which_failures_may_pass(tail: str, waits: bool) -> None:
    assert (not_yet(tail) is not None) == waits


def test_the_requirement() -> None:
    assert rocm_requirement("==7.10.0") == "rocm[libraries,devel]==7.10.0"
    assert rocm_requirement(">1.0", ["device-gfx942", "devel"]) == "rocm[libraries,devel,device-gfx942]>1.0"
    for spec, extras in (("7.10.0", ()), ("newest", ()), ("==1.0", ("a b",)), ("==1.0", ("x]; --evil",))):
        with pytest.raises(UsageError):
            rocm_requirement(spec, extras)


def test_pre_releases_satisfy() -> None:
    assert satisfies("7.10.0a20251124", ">1.0")
    assert satisfies("7.10.0.dev0+efed3c", "==7.10.0.dev0")
    assert not satisfies("0.1.0", ">1.0")
    assert not satisfies("", ">1.0")
