"""Hipify scripts that misbehave: nothing is lost, nothing half-made stays, the message says what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_repos import SCRIPT, Family, commit, git
from rocwright.errors import CommandFailed, RocwrightError
from rocwright.sources.checkout import Checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource

# Many processes of git, pip or compilers: seconds each.
pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]
PATH = "tools/amd_build/build_amd.py"


@pytest.fixture
def small(tmp_path: Path, family: Family) -> Family:
    """The project without its nested submodule: enough for what a script does."""
    git(family.torch, "rm", "-q", "third_party/nest")
    commit(family.torch, {}, "without nest")
    return family


def untouched(place: Path) -> bool:
    return (
        git(place, "status", "--porcelain", "--ignored") == ""
        and git(place, "tag").split() == ["THEROCK_UPSTREAM_DIFFBASE"]
        and not (place / ".git/rocwright/hipify").exists()
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sys.exit('broken rule')\n", "broken rule"),
        ("(root / 'half').write_text('x'); raise KeyError('table')\n", "KeyError: 'table'"),
        ("import subprocess; subprocess.run(['git', 'init', '-q', 'made'], check=True)\n", "at made"),
        ("(root / 'sub').mkdir(); (root / 'sub/.git').write_text('gitdir: /tmp')\n", "at sub"),
        ("(root / 'third_party/fmt lib/.git').mkdir()\n", "at third_party/fmt lib"),
        ("import shutil; shutil.rmtree(root / 'third_party/fmt lib')\n", "removed submodule"),
        ("open(os.fsencode(root) + b'/caf\\xe9', 'w').close()\n", "not UTF-8"),
        ("import urllib.request; urllib.request.urlopen('http://example.org/')\n", "URLError"),
        ("import subprocess; subprocess.run(['git', 'rev-parse', 'HEAD'], check=True)\n", "git repository"),
    ],
)
def test_a_script_that_cannot_be_used_leaves_everything_as_it_was(
    small: Family, lock: Lock, bring: Bring, place: Path, script: str, said: str
) -> None:
    commit(small.torch, {PATH: SCRIPT + script})
    done = bring(lock())
    with pytest.raises(RocwrightError) as caught:
        hipify(done)
    assert said in str(caught.value)
    assert caught.value.next_step is not None
    assert untouched(place)
    if isinstance(caught.value, CommandFailed):
        assert caught.value.log is not None
        assert said in Path(caught.value.log).read_text()


def test_what_a_script_does_elsewhere_does_not_reach_the_commit(
    small: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path
) -> None:
    expected = hipify(bring(lock(), tmp_path / "plain"))
    stray = (
        "import tempfile\n"
        "(root.parent / 'stray').write_text('x')\n"
        "tempfile.mkstemp(); (pathlib.Path.home() / 'stray').write_text('x')\n"
        f"pathlib.Path({str(tmp_path / 'outside')!r}).write_text('x')\n"
        "print('noise ' * 1_000_000)\n"
    )
    commit(small.torch, {PATH: SCRIPT + stray})
    log = tmp_path / "run.log"
    done = hipify(bring(lock()), log=log)
    assert done.changed_files == expected.changed_files
    assert log.stat().st_size > 5_000_000
    assert git(place, "status", "--porcelain", "--ignored") == ""
    assert not (tmp_path / "home/stray").exists()
    assert not list((place / ".git/rocwright").glob("hipify*"))


@pytest.mark.slow
def test_ten_thousand_outputs_and_odd_kinds_of_files(
    small: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    many = (
        "for n in range(10_000):\n"
        "    path = root / f'made/{n % 10}/{n}.hip'\n"
        "    path.parent.mkdir(parents=True, exist_ok=True); path.write_text('same')\n"
        "(root / 'link').symlink_to('/nowhere'); (root / 'b.h').chmod(0o755)\n"
        "(root / 'empty').mkdir(); (root / 'with space\\nand line').write_text('x')\n"
        "os.remove(root / 'third_party/fmt lib/plain.txt'); os.remove(root / 'readme')\n"
        "(root / 'readme').mkdir(); (root / 'readme/inside').write_text('x')\n"
    )
    commit(small.torch, {PATH: SCRIPT + many})
    locked = lock()
    done = hipify(bring(locked))
    assert len(done.changed_files) == 10_000 + 8
    assert (place / "made/9/9999.hip").read_text() == "same"
    assert (place / "link").readlink() == Path("/nowhere")
    assert git(place, "ls-tree", "HEAD", "b.h").startswith("100755")
    assert not (place / "third_party/fmt lib/plain.txt").exists()
    assert (place / "readme/inside").read_text() == "x"
    assert git(place, "status", "--porcelain", "--ignored") == ""
    assert not bring(locked).changed
    bring(lock(hipify=False))
    assert (place / "readme").read_text() == "one\n"
    assert not (place / "made").exists()
    assert (place / "third_party/fmt lib/plain.txt").read_text() == "x\n"


def test_the_flag_of_the_compiler_is_what_was_asked_for(
    small: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "rocm/hip"
    (installed / "lib").mkdir(parents=True)
    monkeypatch.setenv("HIP_PATH", str(installed))
    done = bring(lock())
    plain = hipify(done)
    assert (place / "hip/a.hip").read_text() == "hip a hipLaunch(1\n"
    (installed / "lib/.hipInfo").write_text("HIP_COMPILER=clang\n")
    clang = hipify(done, hip_clang=True)
    assert (place / "hip/a.hip").read_text() == "hip a <<<1\n"
    assert (plain.hip_clang, clang.hip_clang) == (False, True)
    body = git(place, "log", "-1", "--format=%b").splitlines()
    assert body == [f"Hipify-Rules: {clang.rules}", "Hipify-Hip-Clang: true"]
    again = hipify(done)
    assert (again.hipify_commit, again.cached) == (plain.hipify_commit, True)


@pytest.mark.parametrize("folder", ["with space", "a[b]*c?", "hip", "ünï"])
def test_the_place_of_the_checkout_changes_nothing(
    small: Family, lock: Lock, bring: Bring, tmp_path: Path, folder: str
) -> None:
    # The real script joins its own directory with patterns like `*/hip/*`.
    globs = (
        "import fnmatch\n"
        "for path in root.rglob('*.hip'):\n"
        "    if fnmatch.fnmatch(str(path), os.path.join(str(root), '*hip/a.hip')): path.unlink()\n"
    )
    commit(small.torch, {PATH: SCRIPT + globs})
    done = hipify(bring(lock(), tmp_path / folder / "src"))
    assert "hip/a.hip" not in done.changed_files
    assert done.hipify_commit == hipify(bring(lock(), tmp_path / "plain")).hipify_commit


def test_line_ends_and_filters_do_not_look_like_changes(
    small: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stored with CR LF although .gitattributes calls them text: storing them again would change them.
    (small.torch / "old.txt").write_bytes(b"one\r\ntwo\r\n")
    (small.torch / "win.bat").write_bytes(b"echo\r\n")
    (small.torch / "id.c").write_bytes(b"// $Id$ cuda\n")
    commit(small.torch, {})
    attributes = "*.txt text\n*.bat text eol=crlf\n*.c ident\n*.bin filter=lfs\n*.cu text=auto\n"
    (small.torch / ".gitattributes").write_text(attributes)
    (small.torch / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    git(small.torch, "update-index", "--add", "--cacheinfo", *_blob(small.torch, "big.bin"))
    git(small.torch, "update-index", "--add", "--cacheinfo", *_blob(small.torch, ".gitattributes"))
    git(small.torch, "commit", "-q", "-m", "attributes")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    (tmp_path / "global").write_text(
        '[core]\n autocrlf = true\n[filter "lfs"]\n smudge = echo SMUDGED\n clean = echo CLEAN\n'
        " required = true\n"
    )
    locked = lock()
    done = bring(locked)
    assert (place / "big.bin").read_text().startswith("version https://git-lfs")
    assert (place / "readme").read_bytes() == b"one\n"
    # As after a copy of the directory: what git remembers of times is void.
    for name in ("old.txt", "win.bat", "id.c", "big.bin", "readme"):
        (place / name).touch()
    assert bring(locked).commit == done.commit
    first = hipify(done)
    assert set(first.changed_files) == {"b.h", "hip/a.hip", "third_party/fmt lib/fmt.h"}
    for name in ("old.txt", "win.bat", "id.c", "big.bin"):
        (place / name).touch()
    assert hipify(bring(locked)).hipify_commit == first.hipify_commit
    (place / "old.txt").write_bytes(b"one\ntwo\n")
    with pytest.raises(RocwrightError, match=r"changed: old\.txt"):
        bring(lock(hipify=False))


def _blob(repository: Path, name: str) -> tuple[str, str, str]:
    return "100644", git(repository, "hash-object", "-w", "--no-filters", name), name


def test_another_python_is_asked_for_its_version(small: Family, lock: Lock, bring: Bring) -> None:
    done = hipify(bring(lock()), python=Path(sys.executable))
    assert done.python == f"{sys.version_info[0]}.{sys.version_info[1]}"
