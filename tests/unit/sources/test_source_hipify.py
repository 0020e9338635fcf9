"""Hipify: the same inputs give the same commit, nothing stale stays, both tags move together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from git_repos import SCRIPT, Family, commit, git
from test_source_checkout import HIPIFY, REPOSITORIES, UPSTREAM, heads, listing

from rocwright.errors import CommandFailed, RocwrightError
from rocwright.sources.checkout import checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource

Lock = Callable[..., LockedSource]


def tags(directory: Path) -> list[list[str]]:
    return [git(directory / path, "tag").split() for path in REPOSITORIES]


def test_history_tags_and_clean_status(family: Family, lock: Lock, tmp_path: Path) -> None:
    done = hipify(checkout(lock()))
    directory = tmp_path / "work/pytorch"
    log = git(directory, "log", "--format=%D|%s").splitlines()
    assert log[0] == "HEAD, tag: THEROCK_HIPIFY_DIFFBASE|DO NOT SUBMIT: HIPIFY"
    assert log[1] == "tag: THEROCK_UPSTREAM_DIFFBASE, origin/main|v1"
    assert done.hipify_commit == heads(directory)[0]
    assert git(directory, "rev-parse", UPSTREAM) == family.v1
    for path in REPOSITORIES:
        assert git(directory / path, "status", "--porcelain", "--ignored") == ""
        assert git(directory / path, "rev-parse", HIPIFY) == git(directory / path, "rev-parse", "HEAD")
    assert (directory / "hip/a.hip").read_text() == "hip a hipLaunch(1\n"
    assert set(done.changed_files) == {
        "b.h",
        "hip/a.hip",
        "third_party/fmt lib/fmt.h",
        "third_party/nest/deep/inner/hip/inner.hip",
    }
    # The commit names the hipified submodules, so plain git keeps them.
    git(directory, "submodule", "update", "--recursive", "--no-fetch")
    assert (directory / "third_party/fmt lib/fmt.h").read_text() == "// hipified\nhip/hip fmt 1\n"


def test_same_inputs_same_commit(
    family: Family, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pitfall 1, and the hidden input: an installed HIP must not change the tree.
    first = hipify(checkout(lock())).hipify_commit
    installed = tmp_path / "hip/lib"
    installed.mkdir(parents=True)
    (installed / ".hipInfo").write_text("HIP_COMPILER=clang\n")
    monkeypatch.setenv("HIP_PATH", str(installed.parent))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    (tmp_path / "home/.gitconfig").write_text("[user]\n name = Else\n email = e@x\n")
    monkeypatch.chdir(tmp_path)
    again = checkout(lock(), tmp_path / "elsewhere/src")
    # Build products that git ignores are no inputs either.
    (tmp_path / "elsewhere/src/build").mkdir()
    (tmp_path / "elsewhere/src/build/generated.cu").write_text("cuda\n")
    assert hipify(again).hipify_commit == first
    facts = git(tmp_path / "work/pytorch", "log", "-1", "--format=%an <%ae> %at %ct %G? %ai")
    assert facts == "rocwright <rocwright@localhost> 1700000000 1700000000 N 2023-11-14 22:13:20 +0000"


def test_second_call_does_nothing(lock: Lock, tmp_path: Path) -> None:
    # Hipify is not idempotent (cuda -> hip/hip): it must never see its own outputs.
    first = hipify(checkout(lock()))
    again = checkout(lock())
    assert not again.changed
    second = hipify(again)
    assert (second.changed, second.hipify_commit) == (False, first.hipify_commit)
    assert second.changed_files == first.changed_files


@pytest.mark.parametrize("committed", [True, False])
def test_no_stale_outputs_after_a_rename(family: Family, lock: Lock, tmp_path: Path, committed: bool) -> None:
    # Pitfalls 2 and 3: outputs of the old ref, also ignored ones and those in submodules, are gone; files
    # hipified in place do not break the move.
    commit(family.torch, {"secret.cu": "cuda s\n"}, "an output that .gitignore names")
    hipify(checkout(lock()), commit=committed)
    directory = tmp_path / "work/pytorch"
    assert {"hip/a.hip", "hip/secret.hip"} <= listing(directory)
    family.version_2()
    commit(family.torch, {"secret.cu": None})
    done = checkout(lock())
    assert not {"hip/a.hip", "hip/secret.hip"} & listing(directory)
    assert not (directory / "hip").exists()
    hipify(done, commit=committed)
    fresh = checkout(lock(), tmp_path / "fresh")
    hipify(fresh, commit=committed)
    assert listing(directory) == listing(tmp_path / "fresh")
    assert git(directory, "diff", "HEAD") == git(tmp_path / "fresh", "diff", "HEAD")


def test_uncommitted_stays_at_the_published_commit(family: Family, lock: Lock, tmp_path: Path) -> None:
    directory = tmp_path / "work/pytorch"
    done = hipify(checkout(lock()), commit=False)
    assert done.hipify_commit is None
    assert heads(directory) == [family.v1, family.fmt_1, family.nest_1, family.inner_1]
    assert git(directory, "status", "--porcelain", "--ignore-submodules=all").split() == [
        "M",
        "b.h",
        "??",
        "hip/",
    ]
    assert (directory / "b.h").read_text() == "// hipified\nhip/hip b 1\n"
    assert all(HIPIFY not in names for names in tags(directory))
    assert not checkout(lock()).changed
    assert not hipify(checkout(lock()), commit=False).changed
    (directory / "hip/a.hip").unlink()
    assert hipify(checkout(lock()), commit=False).changed
    assert (directory / "hip/a.hip").exists()


def test_an_edited_output_is_foreign_work(family: Family, lock: Lock, tmp_path: Path) -> None:
    commit(family.torch, {"secret.cu": "cuda s\n"})
    hipify(checkout(lock()), commit=False)
    for name in ("b.h", "hip/a.hip", "hip/secret.hip"):
        path = tmp_path / "work/pytorch" / name
        output = path.read_text()
        path.write_text("precious\n")
        with pytest.raises(RocwrightError, match=name):
            checkout(lock(hipify=False))
        assert path.read_text() == "precious\n"
        path.write_text(output)
    checkout(lock(hipify=False))


def test_switching_between_committed_and_not(lock: Lock, tmp_path: Path) -> None:
    directory = tmp_path / "work/pytorch"
    done = checkout(lock())
    committed = hipify(done).hipify_commit
    hipify(done, commit=False)
    assert heads(directory)[0] == done.commit
    assert hipify(done).hipify_commit == committed == heads(directory)[0]
    assert git(directory, "status", "--porcelain") == ""


def test_no_hipify_after_hipify_removes_tag_and_outputs(lock: Lock, tmp_path: Path) -> None:
    # Pitfall 5: the old tag would name a commit of another run.
    directory = tmp_path / "work/pytorch"
    hipify(checkout(lock()))
    assert checkout(lock(hipify=False)).changed
    assert tags(directory) == [[UPSTREAM]] * 4
    assert not (directory / "hip").exists()


def test_nothing_to_change_still_tags(family: Family, lock: Lock, tmp_path: Path) -> None:
    commit(family.torch, {"tools/amd_build/build_amd.py": "print('nothing')\n"})
    locked = lock()
    done = hipify(checkout(locked))
    assert (done.hipify_commit, done.changed_files, done.script) == (None, (), "tools/amd_build/build_amd.py")
    assert git(tmp_path / "work/pytorch", "rev-parse", HIPIFY) == locked.commit
    assert not checkout(locked).changed


def test_a_project_without_a_script_says_so(family: Family, lock: Lock, tmp_path: Path) -> None:
    hipify(checkout(lock()))
    commit(family.torch, {"tools/amd_build/build_amd.py": None})
    locked = lock()
    done = hipify(checkout(locked))
    assert (done.script, done.hipify_commit) == (None, None)
    directory = tmp_path / "work/pytorch"
    assert git(directory, "rev-parse", HIPIFY, UPSTREAM).split() == [locked.commit] * 2
    assert tags(directory) == [[HIPIFY, UPSTREAM]] * 4


def test_a_failing_script_leaves_the_checkout_as_it_was(family: Family, lock: Lock, tmp_path: Path) -> None:
    commit(family.torch, {"tools/amd_build/build_amd.py": SCRIPT + "sys.exit('broken rule')\n"})
    done = checkout(lock())
    with pytest.raises(CommandFailed, match="build_amd") as caught:
        hipify(done)
    assert "broken rule" in str(caught.value)
    assert git(tmp_path / "work/pytorch", "status", "--porcelain", "--ignored") == ""
    assert not (tmp_path / "work/pytorch/.git/rocwright/hipify").exists()


def test_hipify_of_another_commit_is_refused(family: Family, lock: Lock) -> None:
    old = checkout(lock())
    family.version_2()
    checkout(lock())
    with pytest.raises(RocwrightError, match="run checkout again"):
        hipify(old)


def test_the_script_sees_pinned_surroundings(
    family: Family, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = "import json, os, pathlib; pathlib.Path('seen.json').write_text(json.dumps(dict(os.environ)))\n"
    commit(family.torch, {"tools/amd_build/build_amd.py": spy})
    for name in ("CUDA_HOME", "ROCM_PATH", "PYTHONPATH", "HIP_PLATFORM", "HIP_COMPILER"):
        monkeypatch.setenv(name, "surprise")
    hipify(checkout(lock()))
    seen = json.loads((tmp_path / "work/pytorch/seen.json").read_text())
    assert seen["HIP_PLATFORM"] == "amd"
    assert not Path(seen["HIP_PATH"], "lib/.hipInfo").exists()
    assert "surprise" not in seen.values()
