"""Hipify: the same inputs give the same commit, nothing stale stays, both tags move together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from test_source_checkout import HIPIFY, REPOSITORIES, UPSTREAM, heads, listing

from git_repos import SCRIPT, Family, commit, git
from rocwright.errors import CommandFailed, RocwrightError, UnsavedWork
from rocwright.sources.checkout import Checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]


def tags(directory: Path) -> list[list[str]]:
    return [git(directory / path, "tag").split() for path in REPOSITORIES]


def test_history_tags_and_clean_status(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    done = hipify(bring(lock()))
    log = git(place, "log", "--format=%D|%s").splitlines()
    assert log[0] == "HEAD, tag: THEROCK_HIPIFY_DIFFBASE|DO NOT SUBMIT: HIPIFY"
    assert log[1] == "tag: THEROCK_UPSTREAM_DIFFBASE, origin/main|v1"
    assert done.hipify_commit == heads(place)[0]
    assert git(place, "rev-parse", UPSTREAM) == family.v1
    for path in REPOSITORIES:
        assert git(place / path, "status", "--porcelain", "--ignored") == ""
        assert git(place / path, "rev-parse", HIPIFY) == git(place / path, "rev-parse", "HEAD")
    assert (place / "hip/a.hip").read_text() == "hip a hipLaunch(1\n"
    assert set(done.changed_files) == {
        "b.h",
        "hip/a.hip",
        "third_party/fmt lib/fmt.h",
        "third_party/nest/deep/inner/hip/inner.hip",
    }
    # The commit names the hipified submodules, so plain git keeps them.
    git(place, "submodule", "update", "--recursive", "--no-fetch")
    assert (place / "third_party/fmt lib/fmt.h").read_text() == "// hipified\nhip/hip fmt 1\n"


def test_same_inputs_same_commit(
    family: Family, lock: Lock, bring: Bring, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pitfall 1, and the hidden input: an installed HIP must not change the tree.
    first = hipify(bring(lock())).hipify_commit
    installed = tmp_path / "hip/lib"
    installed.mkdir(parents=True)
    (installed / ".hipInfo").write_text("HIP_COMPILER=clang\n")
    monkeypatch.setenv("HIP_PATH", str(installed.parent))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    (tmp_path / "home/.gitconfig").write_text("[user]\n name = Else\n email = e@x\n")
    monkeypatch.chdir(tmp_path)
    again = bring(lock(), tmp_path / "elsewhere/src")
    # Build products that git ignores are no inputs either.
    (tmp_path / "elsewhere/src/build").mkdir()
    (tmp_path / "elsewhere/src/build/generated.cu").write_text("cuda\n")
    assert hipify(again).hipify_commit == first
    facts = git(place, "log", "-1", "--format=%an <%ae> %at %ct %G? %ai")
    assert facts == "rocwright <rocwright@localhost> 1700000000 1700000000 N 2023-11-14 22:13:20 +0000"


def test_second_call_does_nothing(lock: Lock, bring: Bring, tmp_path: Path) -> None:
    # Hipify is not idempotent (cuda -> hip/hip): it must never see its own outputs.
    first = hipify(bring(lock()))
    again = bring(lock())
    assert not again.changed
    second = hipify(again)
    assert (second.changed, second.hipify_commit) == (False, first.hipify_commit)
    assert second.changed_files == first.changed_files


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.slow
def test_no_stale_outputs_after_a_rename(
    family: Family, lock: Lock, bring: Bring, tmp_path: Path, place: Path, committed: bool
) -> None:
    # Pitfalls 2 and 3: outputs of the old ref, also ignored ones and those in submodules, are gone; files
    # hipified in place do not break the move.
    commit(family.torch, {"secret.cu": "cuda s\n"}, "an output that .gitignore names")
    hipify(bring(lock()), head="tip" if committed else "upstream")
    assert {"hip/a.hip", "hip/secret.hip"} <= listing(place)
    family.version_2()
    commit(family.torch, {"secret.cu": None})
    done = bring(lock())
    assert not {"hip/a.hip", "hip/secret.hip"} & listing(place)
    assert not (place / "hip").exists()
    hipify(done, head="tip" if committed else "upstream")
    fresh = bring(lock(), tmp_path / "fresh")
    hipify(fresh, head="tip" if committed else "upstream")
    assert listing(place) == listing(tmp_path / "fresh")
    assert git(place, "diff", "HEAD") == git(tmp_path / "fresh", "diff", "HEAD")


def test_head_stays_at_the_published_commit(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    tip = hipify(bring(lock()), head="upstream").hipify_commit
    assert tip is not None
    assert heads(place) == [family.v1, family.fmt_1, family.nest_1, family.inner_1]
    assert (place / "b.h").read_text() == "// hipified\nhip/hip b 1\n"
    # The commit and its tag are there for whoever wants to see what hipify did.
    assert git(place, "rev-parse", HIPIFY, UPSTREAM).split() == [tip, family.v1]
    assert git(place, "diff", "--name-only", UPSTREAM, HIPIFY, "--ignore-submodules").split("\n") == [
        "b.h",
        "hip/a.hip",
    ]
    assert git(place, "show", "--no-patch", "--format=%s", HIPIFY) == "DO NOT SUBMIT: HIPIFY"
    # Nothing to see for a user who did nothing; in submodules neither.
    for path in REPOSITORIES:
        assert git(place / path, "diff") == ""
        assert git(place / path, "ls-files", "--others", "--exclude-standard") == ""
    (place / "b.h").write_text("// hipified\nhip/hip b 1, mine\n")
    assert git(place, "diff", "--name-only") == "b.h"
    with pytest.raises(UnsavedWork, match=r"changed: b\.h"):
        bring(lock())
    git(place, "checkout", "-q", "b.h")
    assert not bring(lock()).changed
    assert not hipify(bring(lock()), head="upstream").changed
    (place / "hip/a.hip").unlink()
    assert hipify(bring(lock()), head="upstream").changed
    assert (place / "hip/a.hip").exists()


def test_an_edited_output_is_foreign_work(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    commit(family.torch, {"secret.cu": "cuda s\n"})
    hipify(bring(lock()), head="upstream")
    for name in ("b.h", "hip/a.hip", "hip/secret.hip"):
        path = place / name
        output = path.read_text()
        path.write_text("precious\n")
        with pytest.raises(RocwrightError, match=name):
            bring(lock(hipify=False))
        assert path.read_text() == "precious\n"
        path.write_text(output)
    bring(lock(hipify=False))


def test_switching_between_committed_and_not(lock: Lock, bring: Bring, place: Path) -> None:
    done = bring(lock())
    committed = hipify(done).hipify_commit
    hipify(done, head="upstream")
    assert heads(place)[0] == done.commit
    assert hipify(done).hipify_commit == committed == heads(place)[0]
    assert git(place, "status", "--porcelain") == ""


def test_no_hipify_after_hipify_removes_tag_and_outputs(lock: Lock, bring: Bring, place: Path) -> None:
    # Pitfall 5: the old tag would name a commit of another run.
    hipify(bring(lock()))
    assert bring(lock(hipify=False)).changed
    assert tags(place) == [[UPSTREAM]] * 4
    assert not (place / "hip").exists()


def test_nothing_to_change_still_tags(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    commit(family.torch, {"tools/amd_build/build_amd.py": "print('nothing')\n"})
    locked = lock()
    done = hipify(bring(locked))
    assert (done.hipify_commit, done.changed_files, done.script) == (None, (), "tools/amd_build/build_amd.py")
    assert git(place, "rev-parse", HIPIFY) == locked.commit
    assert not bring(locked).changed


def test_a_project_without_a_script_says_so(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    hipify(bring(lock()))
    commit(family.torch, {"tools/amd_build/build_amd.py": None})
    locked = lock()
    done = hipify(bring(locked))
    assert (done.script, done.hipify_commit) == (None, None)
    assert git(place, "rev-parse", HIPIFY, UPSTREAM).split() == [locked.commit] * 2
    assert tags(place) == [[HIPIFY, UPSTREAM]] * 4


def test_a_failing_script_leaves_the_checkout_as_it_was(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    commit(family.torch, {"tools/amd_build/build_amd.py": SCRIPT + "sys.exit('broken rule')\n"})
    done = bring(lock())
    with pytest.raises(CommandFailed, match="build_amd") as caught:
        hipify(done)
    assert "broken rule" in str(caught.value)
    assert git(place, "status", "--porcelain", "--ignored") == ""
    assert not (place / ".git/rocwright/hipify").exists()


def test_hipify_of_another_commit_is_refused(family: Family, lock: Lock, bring: Bring) -> None:
    old = bring(lock())
    family.version_2()
    bring(lock())
    with pytest.raises(RocwrightError, match="run checkout again"):
        hipify(old)


def test_the_script_sees_pinned_surroundings(
    family: Family, lock: Lock, bring: Bring, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = "import json, os, pathlib; pathlib.Path('seen.json').write_text(json.dumps(dict(os.environ)))\n"
    commit(family.torch, {"tools/amd_build/build_amd.py": spy})
    for name in ("CUDA_HOME", "ROCM_PATH", "PYTHONPATH", "HIP_PLATFORM", "HIP_COMPILER"):
        monkeypatch.setenv(name, "surprise")
    hipify(bring(lock()))
    seen = json.loads((place / "seen.json").read_text())
    assert seen["HIP_PLATFORM"] == "amd"
    assert not Path(seen["HIP_PATH"], "lib/.hipInfo").exists()
    assert "surprise" not in seen.values()
