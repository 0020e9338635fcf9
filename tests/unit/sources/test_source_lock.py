"""The lock file: what it holds, in which order, and everything it must never hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocwright.errors import InvalidData, UsageError
from rocwright.sources.lock import LockedSource, Outcome, SourceLock, read_lock, torch_commits, write_lock

A, B, C = "a" * 40, "b" * 40, "c" * 40
TORCH = LockedSource("torch", "https://host/torch.git", "refs/heads/main", A, "flag", "pytorch", True)
AUDIO = LockedSource(
    "torchaudio",
    "https://host/audio.git",
    "refs/heads/main",
    B,
    "pin",
    "pytorch_audio",
    True,
    pin=f"related_commits:3 @ {A}, edited",
    build_env={"B": "2", "A": "1"},
    outcome=Outcome(A, B, "rules", "3.11"),
)
APEX = LockedSource("apex", "git@host:apex", B, B, "default", "apex", False)


def lock(*sources: LockedSource) -> SourceLock:
    return SourceLock(1, "linux", sources)


def test_a_lock_is_read_back_and_its_bytes_depend_on_nothing_else(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    write_lock(lock(APEX, AUDIO, TORCH), one)
    write_lock(lock(TORCH, APEX, msgspec.structs.replace(AUDIO, build_env={"A": "1", "B": "2"})), other)
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes().endswith(b"}\n")
    # torch first, because the others follow from it; then by name.
    assert read_lock(one) == lock(TORCH, APEX, AUDIO)
    written = json.loads(one.read_text())
    assert (written["schema"], written["platform"]) == (1, "linux")
    assert written["sources"][0] == {
        "project": "torch",
        "origin": "https://host/torch.git",
        "ref": "refs/heads/main",
        "commit": A,
        "why": "flag",
        "directory": "pytorch",
        "hipify": True,
        "hip_clang": False,
        "submodules": True,
        "pin": None,
        "build_env": {},
        "outcome": None,
    }


def test_newer_sources_take_the_place_of_older_ones() -> None:
    newer = msgspec.structs.replace(TORCH, commit=B)
    assert lock(TORCH, APEX).updated(lock(newer, AUDIO)) == lock(newer, APEX, AUDIO)
    # A new decision has no outcome until it is checked out.
    decided = msgspec.structs.replace(AUDIO, outcome=None)
    assert lock(AUDIO).updated(lock(decided)).get("torchaudio").outcome is None


def test_a_lock_belongs_to_a_platform() -> None:
    windows = SourceLock(1, "windows", (APEX,))
    with pytest.raises(
        UsageError, match=r"was made for linux, not for windows\n  next: name the platform linux"
    ):
        lock(TORCH).updated(windows)
    with pytest.raises(UsageError, match="was made for windows, not for linux"):
        windows.for_platform("linux")
    assert windows.for_platform("windows") is windows


def test_a_project_that_is_not_locked() -> None:
    with pytest.raises(UsageError, match=r"does not hold apex\n  next: it holds torch, torchaudio; lock it"):
        lock(TORCH, AUDIO).get("apex")
    with pytest.raises(UsageError, match="it holds nothing"):
        lock().get("apex")


def spoiled(tmp_path: Path, **fields: Any) -> Path:
    """A lock of torch and apex, the latter with other values in some fields."""
    write_lock(lock(TORCH, APEX), tmp_path / "lock.json")
    values = json.loads((tmp_path / "lock.json").read_text())
    values["sources"][1] |= fields
    (tmp_path / "lock.json").write_text(json.dumps(values))
    return tmp_path / "lock.json"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"commit": "main"}, "sources[1].commit 'main' is not a complete commit id"),
        ({"commit": A[:39]}, "is not a complete commit id"),
        ({"commit": A.upper()}, "is not a complete commit id"),
        ({"directory": "/tmp/apex"}, "sources[1].directory '/tmp/apex' is not a bare name"),
        ({"directory": ".."}, "sources[1].directory '..' is not a bare name"),
        ({"directory": "a/b"}, "sources[1].directory 'a/b' is not a bare name"),
        ({"directory": "a\\b"}, "is not a bare name"),
        ({"directory": ""}, "sources[1].directory '' is not a bare name"),
        ({"directory": "Aux"}, "sources[1].directory 'Aux' is the name of a device on Windows"),
        ({"directory": "PyTorch"}, "sources[1].directory 'pytorch' is already in sources[0]"),
        ({"project": "torch"}, "sources[1].project 'torch' is already in sources[0]"),
        ({"project": "../torch"}, "sources[1].project '../torch' is not a bare name"),
        ({"origin": "--upload-pack=x"}, "sources[1].origin starts with a dash"),
        ({"origin": "https://host/a\x1b[2J"}, "sources[1].origin contains control characters"),
        ({"origin": "https://ann:hunter2@host/a"}, "sources[1].origin contains a login"),
        ({"origin": "ext::sh -c id"}, "sources[1].origin names a git remote helper"),
        ({"origin": "../torch"}, "sources[1].origin is a relative path"),
        ({"origin": ""}, "sources[1].origin is empty"),
        ({"ref": "main"}, "sources[1].ref 'main' is neither a complete ref nor the commit"),
        ({"ref": "--force"}, "sources[1].ref '--force' is neither"),
        ({"ref": "refs/heads/a..b"}, "sources[1].ref 'refs/heads/a..b' is not a valid name"),
        ({"ref": A}, "is neither a complete ref nor the commit"),
        ({"pin": "related_commits:1\x1b[2J"}, "sources[1].pin"),
        ({"build_env": {"A B": "1"}}, "sources[1].build_env 'A B' is not an environment variable"),
        ({"build_env": {"A": "\0"}}, "sources[1].build_env 'A' is not an environment variable"),
        ({"build_env": {"LD_PRELOAD": "/tmp/x.so"}}, "'LD_PRELOAD' changes what the programs of"),
        ({"outcome": {"tip": "x"}}, "sources[1].outcome.tip 'x' is not a complete commit id"),
        (
            {"outcome": {"tip": A, "hipify_commit": "y"}},
            "sources[1].outcome.hipify_commit 'y' is not a complete",
        ),
        ({"why": "guess"}, "'guess' - at `$.sources[1].why`"),
        ({"orgin": "x"}, "unknown field `orgin` - at `$.sources[1]`"),
        ({"hipify": "yes"}, "Expected `bool`, got `str` - at `$.sources[1].hipify`"),
    ],
)
def test_a_field_that_no_lock_may_hold_is_named(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    path = spoiled(tmp_path, **fields)
    with pytest.raises(InvalidData) as caught:
        read_lock(path)
    assert said in caught.value.what
    assert caught.value.where == str(path)
    assert "hunter2" not in str(caught.value)
    assert "rocwright sources lock" in (caught.value.next_step or "")


def test_all_fields_are_named_at_once(tmp_path: Path) -> None:
    path = spoiled(tmp_path, commit="main", ref="main", directory="..")
    with pytest.raises(InvalidData) as caught:
        read_lock(path)
    assert caught.value.what.splitlines() == [
        f"{path}: sources[1].directory '..' is not a bare name of letters, digits, '.', '_', '+' and '-'",
        f"{path}: sources[1].commit 'main' is not a complete commit id",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a source lock: "),
        ("{", "is not a source lock: .*line 1"),
        # Where the brace stands; Python 3.13 and newer name the comma before it.
        ('{\n "schema": 1,\n}', "is not a source lock: .*line [23]"),
        ("[]", "is not a source lock: Expected `object`"),
        ("null", "is not a source lock: Expected `object`"),
        ("[" * 100_000, "is not a source lock: it is nested too deeply"),
        ('{"schema": 1, "platform": "linux"}', "missing required field `sources`"),
        ('{"schema": 9, "platforms": []}', "has schema 9, this version reads 1"),
        ('{"schema": "1", "platform": "linux", "sources": []}', "Expected `int`, got `str`"),
        ('{"schema": true, "platform": "linux", "sources": []}', "Expected `int`, got `bool`"),
        (
            '{"schema": 1, "platform": "darwin", "sources": []}',
            "platform 'darwin' is not one of linux, windows",
        ),
        (
            '{"schema": 1, "schema": 1, "platform": "linux", "sources": []}',
            "the field 'schema' appears twice",
        ),
    ],
)
def test_a_file_that_is_no_lock(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "lock.json"
    path.write_text(text)
    with pytest.raises(InvalidData, match=said):
        read_lock(path)


def test_a_field_that_stands_twice_says_two_things(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    write_lock(lock(TORCH), path)
    path.write_text(path.read_text().replace('"commit":', f'"commit": "{B}", "commit":'))
    with pytest.raises(InvalidData, match="the field 'commit' appears twice in one object"):
        read_lock(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"absent\.json does not exist\n  next: make it with"):
        read_lock(tmp_path / "absent.json")
    with pytest.raises(InvalidData, match="cannot be read: Is a directory"):
        read_lock(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b'{"schema": "\xff"}')
    with pytest.raises(InvalidData, match=r"bytes\.json is not a source lock"):
        read_lock(tmp_path / "bytes.json")


def test_a_login_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    write_lock(lock(TORCH), path)
    before = path.read_bytes()
    secret = msgspec.structs.replace(TORCH, origin="https://hunter2@host/torch.git")
    with pytest.raises(InvalidData, match=r"sources\[0\]\.origin contains a login") as caught:
        write_lock(lock(secret), path)
    assert "hunter2" not in str(caught.value)
    assert path.read_bytes() == before


# -- the commits of torch, for those who only test it


def locked(path: Path, project: str, outcome: Outcome | None) -> Path:
    source = LockedSource(
        project, "https://example.org/it", "refs/heads/main", A, "default", "it", True, outcome=outcome
    )
    write_lock(SourceLock(1, "linux", (source,)), path)
    return path


def test_upstream_then_hipified_then_with_patches(tmp_path: Path) -> None:
    lock = tmp_path / "sources.lock.json"
    assert torch_commits(locked(lock, "torch", None)) == (A,)
    assert torch_commits(locked(lock, "torch", Outcome(tip=C, hipify_commit=B))) == (A, B, C)
    # Nothing to hipify, no patches: the files are upstream's.
    assert torch_commits(locked(lock, "torch", Outcome(tip=A))) == (A,)


def test_a_lock_that_says_nothing_of_torch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not hold torch"):
        torch_commits(locked(tmp_path / "sources.lock.json", "torchaudio", None))
    with pytest.raises(InvalidData, match="does not exist"):
        torch_commits(tmp_path / "absent.json")
