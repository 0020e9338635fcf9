"""The environment for tests: which index is meant, what is said to the installer, what is never removed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from command_line import status
from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData, UsageError
from rocwright.gputest.install import Install, links_pages, package_words
from rocwright.gputest.setup_venv import activate_in_steps, require_removable
from rocwright.model.indexes import IndexTable
from rocwright.system.venv import misplaced_settings, not_yet, own_settings

TABLE = load_table("indexes", IndexTable)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def setup_venv(*words: object) -> int:
    return status("test", "setup-venv", *words)


@pytest.mark.parametrize(
    ("url", "name", "subdir", "meant"),
    [
        (None, "", "", None),
        ("", "", "", ""),
        ("https://host/simple", "", "", "https://host/simple"),
        ("https://host/v2", "", "gfx94X-dcgpu", "https://host/v2/gfx94X-dcgpu/"),
        ("https://host/v2/", "", "/gfx110X-all/", "https://host/v2/gfx110X-all/"),
        ("https://u:p@host/v2/", "", "a/b", "https://u:p@host/v2/a/b/"),
        (None, "stable", "", "https://stable.repo.amd.com/rocm/whl-next/"),
        (None, "prerelease", "", "https://rc.repo.amd.com/rocm/whl-next/"),
        (None, "nightly", "", "https://nightly.repo.amd.com/rocm/whl-next/"),
        (None, "dev", "", "https://dev.repo.amd.com/rocm/whl-next/"),
        (None, "nightly-multi-arch", "", "https://rocm.nightlies.amd.com/whl-multi-arch/"),
        # With the directory of a family: before there was one index for all GPUs.
        (None, "stable", "gfx94X-dcgpu", "https://repo.amd.com/rocm/whl/gfx94X-dcgpu/"),
        (None, "prerelease", "gfx120X-all", "https://rocm.prereleases.amd.com/whl/gfx120X-all/"),
        (None, "nightly", "gfx110X-all", "https://rocm.nightlies.amd.com/v2/gfx110X-all/"),
        (None, "dev", "gfx1151", "https://rocm.devreleases.amd.com/v2/gfx1151/"),
    ],
)
def test_which_index_is_meant(url: str | None, name: str, subdir: str, meant: str | None) -> None:
    assert TABLE.address(url, name, subdir) == meant


@pytest.mark.parametrize(
    ("url", "name", "subdir", "said"),
    [
        ("https://host/", "nightly", "gfx1151", "contradict each other"),
        ("", "nightly", "gfx1151", "contradict each other"),
        (None, "nightly-per-family", "", "--index-subdir names it"),
        (None, "vllm", "", "--extra-index-url https://rocm.frameworks.amd.com/whl-multi-arch/vllm/"),
        (None, "bkc", "gfx1151", "has no directories of families"),
        (None, "nightlies", "gfx1151", "perhaps nightly"),
        (None, "weekly", "gfx1151", "stable, prerelease, nightly, dev"),
        (None, "", "gfx1151", "needs an index"),
        ("", "", "gfx1151", "needs an index"),
        ("host/simple", "", "", "not a URL"),
        ("https://host/a b", "", "", "not a URL"),
        ("https://host/?x=1", "", "gfx1151", "cannot be joined"),
        (None, "nightly", "../gfx1151", "is not a directory below"),
        (None, "nightly", "a//b", "is not a directory below"),
        (None, "nightly", "http://evil", "is not a directory below"),
        (None, "nightly", "gfx1151?x", "is not a directory below"),
    ],
)
def test_options_that_mean_no_index_are_refused(url: str | None, name: str, subdir: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        TABLE.address(url, name, subdir)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("stream", "version", "name"),
    [
        # The first release of each layout, and the last one of that before.
        ("stable", "10.0.0", "stable"),
        ("stable", "7.14.1", "stable-multi-arch"),
        ("stable", "7.13.0", "stable-per-family"),
        ("nightly", "10.1.0a20260823", "nightly"),
        ("nightly", "10.1.0a20260822", "nightly-multi-arch"),
        ("nightly", "7.13.0a20260416", "nightly-per-family"),
        ("prerelease", "10.1.0rc0", "prerelease"),
        ("prerelease", "10.0.0rc4", "prerelease-multi-arch"),
        ("prerelease", "7.10.0rc2", "prerelease-per-family"),
        ("stable", "", "stable"),
        ("stable", "no version", "stable"),
    ],
)
def test_which_index_of_a_stream_has_a_version(stream: str, version: str, name: str) -> None:
    assert TABLE.serving(stream, version).name == name


def test_every_built_in_index_has_a_source_and_what_ended_a_successor() -> None:
    for row in TABLE.index:
        assert row.sources, row.name
        assert bool(row.ended) == bool(row.replaced_by), row.name
        assert not row.replaced_by or not TABLE.named(row.replaced_by).ended, row.name


def test_a_rocwright_toml_adds_indexes_that_need_no_family() -> None:
    text = '[[indexes.index]]\nname = "ours"\nurl = "https://wheels.example.com/simple/"\n'
    table = load_table("indexes", IndexTable, parse_overlay(text, where="rocwright.toml"))
    assert table.address(None, "ours", "") == "https://wheels.example.com/simple/"
    assert table.address(None, "ours", "gfx942") == "https://wheels.example.com/simple/gfx942/"
    assert table.named("nightly") == TABLE.named("nightly")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('name = "nightly"\nurl = "https://wheels.example.com/"', "two indexes have the name nightly"),
        ('name = "ours"\nurl = "wheels.example.com"', "is not an address"),
        ('name = "ours"\nurl = "https://a.example/"\nreplaced_by = "gone"', "gone, which is no index"),
        ('name = "ours"\nurl = "https://a.example/"\nrocm = "7.14"', "'7.14', which is not a specifier"),
        ('name = "ours"\nurl = "https://a.example/"\nlayout = "flat"', "flat"),
        ('name = "ours"\nadress = "https://wheels.example.com"', "adress"),
    ],
)
def test_a_malformed_row_is_named(row: str, said: str) -> None:
    overlay = parse_overlay(f"[[indexes.index]]\n{row}\n", where="rocwright.toml")
    with pytest.raises(InvalidData, match=r"rocwright\.toml") as refused:
        load_table("indexes", IndexTable, overlay)
    assert said in str(refused.value)


def test_packages_are_separated_by_blanks() -> None:
    assert package_words(("torch==2.9.0+rocm7.10.0  rocm[libraries,devel]", "pytest>=7")) == (
        "torch==2.9.0+rocm7.10.0",
        "rocm[libraries,devel]",
        "pytest>=7",
    )
    assert package_words(("dist/torch-2.9.0-cp312-cp312-linux_x86_64.whl https://host/a.whl",))
    assert package_words(("", "  ")) == ()


@pytest.mark.parametrize(
    "text", ["-r requirements.txt", "torch --pre", "torch==", "torch=2.9", "torch ==2.9"]
)
def test_what_is_no_package_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--packages"):
        package_words((text,))


def test_what_pip_is_told() -> None:
    packages = ("torch", "pytest")
    assert Install(packages).arguments() == ["torch", "pytest"]
    assert Install(packages, "https://h/", ("/w", "https://p/"), pre=True).arguments() == [
        *("--index-url", "https://h/", "--find-links", "/w", "--find-links", "https://p/", "--pre"),
        *packages,
    ]
    assert Install(packages, "", ("/w",), cache=False).arguments() == [
        *("--no-index", "--no-build-isolation", "--find-links", "/w", "--no-cache-dir"),
        *packages,
    ]


def test_what_uv_is_told() -> None:
    wanted = Install(("torch",), "https://h/", pre=True, cache=False, uv=True)
    assert wanted.arguments() == [
        *("--index-url", "https://h/", "--prerelease", "allow", "--no-cache"),
        "torch",
    ]


@pytest.mark.parametrize(
    ("index", "pages", "waits"),
    [
        (None, (), True),
        ("https://h/", (), True),
        ("", ("https://p/",), True),
        ("", ("/w",), False),
        ("", ("file:///w",), False),
        ("file:///w/", ("/w",), False),
    ],
)
def test_only_what_is_reached_by_network_is_waited_for(
    index: str | None, pages: tuple[str, ...], waits: bool
) -> None:
    assert Install(("x",), index, pages).waits is waits


# As uv 0.13 prints them.
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Because nosuch was not found in the package registry and you require nosuch", None),
        ("error: No solution found when resolving dependencies\n  cause: Because nosuch was", "not show"),
        ("cause: HTTP status client error (404 Not Found) for url", "not show"),
        ("cause: HTTP status server error (503 Service Unavailable) for url", "errors of its own"),
        ("cause: tcp connect error\n  cause: Connection refused (os error 111)", "does not answer"),
        ("cause: Failed to extract archive: x.whl\n cause: Bad uncompressed size", "broke off"),
        ("No solution found when resolving\nBecause oldp==1 requires Python >=3.40 and", None),
        ("No solution found when resolving\nno wheels with a matching Python ABI tag", None),
        ("No solution found when resolving\ncredentials (401 Unauthorized)", None),
        ("cause: dns error\n cause: failed to lookup address information", None),
    ],
)
def test_what_uv_says_may_be_over_in_a_moment_or_not(said: str, reason: str | None) -> None:
    found = not_yet(said)
    assert found is None if reason is None else reason in (found or "")


def test_settings_of_the_caller_count_only_where_his_own_index_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    for name in ("PIP_INDEX_URL", "PIP_TARGET", "PIP_CERT", "UV_DEFAULT_INDEX", "UV_PROJECT", "UV_CACHE_DIR"):
        monkeypatch.setenv(name, "x")
    assert sorted(own_settings("pip")) == ["PIP_INDEX_URL", "PIP_TARGET"]
    assert misplaced_settings("pip") == ["PIP_TARGET"]
    assert sorted(own_settings("uv")) == ["UV_DEFAULT_INDEX", "UV_PROJECT"]
    assert misplaced_settings("uv") == ["UV_PROJECT"]


def test_later_steps_of_a_job_are_told(tmp_path: Path) -> None:
    path, env = tmp_path / "path", tmp_path / "env"
    env.write_text("A=1\n")
    root = tmp_path / "v"
    assert activate_in_steps(root, {"GITHUB_PATH": str(path), "GITHUB_ENV": str(env)}) == ()
    assert path.read_text() == f"{root}/bin\n"
    assert env.read_text() == f"A=1\nVIRTUAL_ENV={root}\n"
    assert activate_in_steps(root, {"GITHUB_ENV": str(env)}) == ("GITHUB_PATH",)


@pytest.mark.parametrize("clean", [(), ("--clean",)])
def test_a_directory_that_is_no_environment_is_left_alone(
    clean: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work" / "bin").mkdir(parents=True)
    (tmp_path / "work" / "thesis.tex").write_text("years")
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for name in ("work", "file", "dangling", "."):
        assert setup_venv(name, *clean) == 2
        assert "nothing was touched" in capsys.readouterr().err
    assert (tmp_path / "work" / "thesis.tex").read_text() == "years"
    assert (tmp_path / "file").read_text() == "x" and (tmp_path / "dangling").is_symlink()


def test_clean_keeps_an_environment_with_other_files_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "project"
    (root / "lib").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("")
    (root / "main.py").write_text("print()")
    assert setup_venv(root, "--clean") == 2
    assert "main.py" in capsys.readouterr().err
    assert (root / "main.py").exists() and (root / "pyvenv.cfg").exists()


def test_clean_does_not_remove_the_environment_that_runs_it(tmp_path: Path) -> None:
    for root in (Path(sys.prefix), Path(sys.prefix).parent):
        with pytest.raises(UsageError, match="this tool runs in"):
            require_removable(root)
    link = tmp_path / "link"
    link.symlink_to(sys.prefix)
    with pytest.raises(UsageError, match="this tool runs in"):
        require_removable(link)


def test_clean_keeps_what_cannot_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "v"
    (root / "lib").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("")
    assert setup_venv(root, "--clean", "--python", tmp_path / "no" / "python") == 4
    with monkeypatch.context() as here:
        here.setattr(sys, "executable", str(tmp_path / "python"))
        here.setenv("PATH", str(tmp_path))
        assert setup_venv(root, "--clean", "--use-uv", "--packages", "torch") == 4
    assert "uv was not found" in capsys.readouterr().err
    monkeypatch.chdir(root / "lib")
    assert setup_venv("..", "--clean") == 2
    assert "the directory you are in" in capsys.readouterr().err
    assert (root / "pyvenv.cfg").exists()


def test_an_environment_of_another_python_is_not_taken_for_the_one_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "v"
    assert setup_venv(root, "--use-uv", "--python", sys.executable) == 0
    assert setup_venv(root, "--use-uv", "--python", "{}.{}".format(*sys.version_info)) == 0
    capsys.readouterr()
    # A stand-in of another version: what it says of itself is all that is asked.
    other = tmp_path / "python9"
    said = {"path": str(other), "version": "3.9", "full": "3.9.1", "include": "", "has_headers": False}
    other.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    other.chmod(0o755)
    assert setup_venv(root, "--python", other) == 2
    assert "not 3.9" in capsys.readouterr().err


def test_an_environment_that_does_not_work_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "v"
    (root / "bin").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("")
    (root / "bin" / "python").symlink_to(tmp_path / "gone")
    assert setup_venv(root) == 2
    assert "--clean" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--index-url", "https://h/", "--index-name", "nightly"], "contradict"),
        (["--index-name", "nightli", "--index-subdir", "gfx942"], "perhaps nightly"),
        (["--packages=-rx"], "option of the installer"),
        (["--find-links", "absent-dir", "--packages", "torch"], "absent-dir"),
        (["--install-retry-timeout-seconds", "-1"], "negative"),
        (["--install-retry-wait-between-seconds", "0"], "negative, or there is no pause"),
        (["--python", "three"], "'three' is not a version of Python"),
    ],
)
def test_bad_options_are_refused_before_anything_is_made(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup_venv(tmp_path / "v", *words) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "v").exists()


def test_a_path_that_cannot_be_on_a_path_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup_venv(tmp_path / "a:b") == 2
    assert setup_venv(f"{tmp_path}/a\nLD_PRELOAD=evil.so") == 2
    assert "cannot be on a PATH" in capsys.readouterr().err
    assert not any(tmp_path.glob("a*"))


def test_empty_options_are_options_that_were_not_given(tmp_path: Path) -> None:
    assert links_pages(["", "  "]) == ()
    root = tmp_path / "v"
    root.mkdir()
    words = ["--index-name=", "--index-subdir=", "--find-links=", "--packages=", "--python="]
    assert setup_venv(root, "--use-uv", *words) == 0
    assert (root / "bin" / "python").exists()


def test_a_family_that_is_not_known_has_a_near_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--index-name", "nightly", "--index-subdir", "gfx94X-dcgp"]
    assert setup_venv(tmp_path / "v", "--use-uv", *words) == 0
    said = capsys.readouterr().err
    assert "gfx94X-dcgp is not a known family; perhaps gfx94X-dcgpu" in said
    assert "later steps do not see" not in said, "that was not asked for"


def test_an_older_index_says_what_took_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--index-name", "nightly", "--index-subdir", "gfx94X-dcgpu"]
    assert setup_venv(tmp_path / "v", "--use-uv", *words) == 0
    assert capsys.readouterr().err.count("newer ones are on https://nightly.repo.amd.com/rocm/whl-next/") == 1
    assert setup_venv(tmp_path / "v", "--use-uv", "--index-name", "nightly") == 0
    assert "newer ones" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "told"), [("torch==2.13.0", True), ("torch[device-gfx942]", False), ("pytest", False)]
)
def test_an_index_for_all_gpus_wants_the_extra_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], package: str, told: bool
) -> None:
    """The index is a directory of this machine that has nothing, so nothing is installed."""
    (tmp_path / "simple").mkdir()
    row = f'name = "ours"\nurl = "{(tmp_path / "simple").as_uri()}/"\nlayout = "multi-arch"\n'
    Path("rocwright.toml").write_text(f"[[indexes.index]]\n{row}")
    words = ["--index-name", "ours", "--packages", package, "--install-retry-timeout-seconds", "0"]
    assert setup_venv(tmp_path / "v", "--use-uv", *words) != 0
    said = "note: in ours code for GPUs is apart: name the extra of yours, as in torch[device-TARGET]"
    assert (said in capsys.readouterr().err) == told


def test_an_environment_is_used_again_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "v"
    assert setup_venv(root, "--use-uv", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["created"] and first["installed"] == {} and first["tries"] == 0
    assert first["python"] == f"{root}/bin/python"
    (root / "mark").write_text("")
    assert setup_venv(root, "--use-uv", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {**first, "created": False}
    assert (root / "mark").exists()
    (root / "mark").unlink()
    (root / "share").mkdir()
    assert setup_venv(root, "--use-uv", "--clean", "--json") == 0
    assert json.loads(capsys.readouterr().out)["created"] and not (root / "share").exists()
