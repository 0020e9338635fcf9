"""`rocwright install-rocm` at its door, as far as it goes without an index that answers."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from rocwright.system import venv
from rocwright.system.venv import Environment

STABLE = "https://stable.repo.amd.com/rocm/whl-next/"
NIGHTLY = "https://nightly.repo.amd.com/rocm/whl-next/"
OLDER = "https://repo.amd.com/rocm/whl-multi-arch/"
OLD = "https://rocm.nightlies.amd.com/v2/gfx110X-all/"
REPLACED = (
    "note: https://rocm.nightlies.amd.com/v2/ gets no new packages since 2026-07-14 and may go away; newer "
    "ones are on https://nightly.repo.amd.com/rocm/whl-next/ (--index-name nightly), with an extra for each "
    "GPU (device-TARGET)"
)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return venv.create(tmp_path / "an env")


@pytest.mark.parametrize(
    ("words", "address", "version"),
    [
        (("--index-name", "stable"), STABLE, ">1.0"),
        (("--index-name", "nightly"), NIGHTLY, ">1.0"),
        # The index of a stream is the one that has the version.
        (("--index-name", "stable", "--rocm-sdk-version", "==7.14.1"), OLDER, "==7.14.1"),
        (("--index-name", "stable", "--rocm-sdk-version", "==10.1.0"), STABLE, "==10.1.0"),
        (("--index-name", "nightly", "--index-subdir", "gfx110X-all"), OLD, ">1.0"),
        (
            ("--index-url", "https://host.example/v2", "--index-subdir", "fam"),
            "https://host.example/v2/fam/",
            ">1.0",
        ),
        (("--index-url", "https://user:secret@host.example/s/"), "https://***@host.example/s/", ">1.0"),
    ],
)
def test_a_dry_run_prints_pips_commands(
    rocwright, environment: Environment, words: tuple[str, ...], address: str, version: str
) -> None:
    """Nobody is asked, so the address need not answer."""
    before = sorted(environment.root.rglob("*"))
    words = (
        *words,
        "--rocm-extras",
        "device-gfx1151",
        "--rocm-environment",
        str(environment.root),
        "--dry-run",
    )
    code, out, err = rocwright("install-rocm", *words)
    assert code == 0, err
    assert "secret" not in out + err
    forget, install = (shlex.split(line) for line in out.splitlines())
    pip = forget[: forget.index("--python")]
    assert pip[-1].endswith("pip")
    python = ["--python", str(environment.python)]
    assert forget == [*pip, *python, "cache", "remove", "rocm"]
    assert install[: len(pip) + 3] == [*pip, *python, "install"]
    assert install[install.index("--index-url") + 1] == address
    assert install[-1] == f"rocm[libraries,devel,device-gfx1151]{version}"
    _, out, _ = rocwright("install-rocm", *words, "--json")
    assert json.loads(out) == {"environment": str(environment.root), "commands": [forget, install]}
    assert sorted(environment.root.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--index-url", OLD), [REPLACED]),
        (("--index-url", OLD.replace("://", "://user:secret@")), [REPLACED]),
        (("--index-name", "nightly", "--index-subdir", "gfx110X-all"), [REPLACED]),
        (("--index-url", NIGHTLY), []),
        (("--index-url", OLDER), []),
        (("--index-url", "https://host.example/v2/gfx110X-all/"), []),
    ],
)
def test_an_older_index_says_once_what_took_its_place(
    rocwright, environment: Environment, words: tuple[str, ...], said: list[str]
) -> None:
    where = ("--rocm-environment", str(environment.root))
    code, _, err = rocwright("install-rocm", *words, *where, "--dry-run")
    assert (code, err.splitlines()) == (0, said)
    more = ("--install-rocm", "--pytorch-rocm-arch", "gfx1100", "--output-dir", "out", "--dry-run")
    _, _, err = rocwright("build", *words, *where, *more)
    assert [line for line in err.splitlines() if "gets no new packages" in line] == said


def test_what_means_no_index(rocwright, environment: Environment) -> None:
    where = ("--rocm-environment", str(environment.root), "--dry-run")
    for words, said in (
        ((), "give --index-name, --index-url or --find-links"),
        (("--index-name", "nightli"), "perhaps nightly"),
        (("--index-name", "nightly", "--index-url", STABLE), "contradict each other"),
        (("--index-name", "stable", "--rocm-sdk-version", "==7.10.0"), "--index-subdir names it"),
        (("--index-name", "vllm"), "it adds to stable"),
        (("--index-name", "stable", "--rocm-sdk-version", "7.14"), "write the operator too"),
    ):
        code, out, err = rocwright("install-rocm", *words, *where)
        assert (code, out) == (2, ""), words
        assert said in err, words
