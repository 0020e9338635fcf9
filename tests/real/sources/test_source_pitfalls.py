"""What went wrong with other tools that check out and hipify PyTorch, one test each, at the command line.

The numbers in the names are those of the list of pitfalls that this room was built against; tests of a trap
of the hipify script itself say `trap`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from git_repos import commit, git
from real.sources.desk import HIPIFY, LOCK, SUBMODULES, UPSTREAM, facts, listing, said

UNSAVED, INVALID, UNREACHABLE = 11, 3, 5
HEADS = {"tip": (), "upstream": ("--head-stays-upstream",), "not-committed": ("--no-commit-hipify",)}
PIN = "ubuntu|pytorch|torchaudio|main|{commit}|{origin}\n"
# Run over its own outputs it makes another tree, and it looks for a file in the current directory.
ODD_SCRIPT = """\
import pathlib
root = pathlib.Path(__file__).resolve().parents[2]
for source in sorted(root.rglob("*.cu")) + sorted(root.rglob("*.h")):
    source.write_text(source.read_text().replace("driver", "hip/driver"))
here = pathlib.Path("tools/amd_build/build_amd.py").exists()
(root / "found.h").write_text(f"found the tree from the current directory: {here}\\n")
"""


def every(desk, at="pytorch"):
    """HEAD and both tags of the project and its submodules."""
    return {path: fact[:1] + fact[2:4] for path, fact in facts(desk, at).items()}


# 1. The same ref again is the same hipify commit.


@pytest.mark.parametrize("flags", HEADS.values(), ids=HEADS)
def test_1_same_ref_again_is_the_same_commit(world, flags):
    desk = world.desk
    desk.checkout(*flags)
    first = every(desk)
    assert set(first) == {"", *SUBMODULES}
    for path in ("", SUBMODULES[0], SUBMODULES[2]):
        _, upstream, hipified = first[path]
        assert upstream != hipified
        assert upstream
        assert hipified
    desk.checkout(*flags)
    assert every(desk) == first, "here"
    desk.checkout("--directory", "other place", "--no-mirror", *flags, TZ="Asia/Tokyo", LC_ALL="C")
    assert every(desk, "other place/pytorch") == first, "and anywhere"


def test_1_user_identity_and_settings_do_not_reach_the_commit(world):
    desk = world.desk
    desk.checkout("--directory", "plain")
    desk.write(
        ".home/.gitconfig",
        "[user]\n name = Uma\n email = uma@example.org\n[commit]\n gpgsign = true\n[tag]\n gpgsign = true\n"
        "[core]\n autocrlf = true\n excludesFile = ~/ignore\n[gpg]\n program = /bin/false\n",
    )
    desk.write(".home/ignore", "*.hip\n*.cu\n")
    desk.checkout(
        "--directory", "signing", "--no-mirror", GIT_AUTHOR_NAME="Uma", GIT_COMMITTER_DATE="1 +0000"
    )
    assert every(desk, "signing/pytorch") == every(desk, "plain/pytorch")


# 2. Outputs of an earlier hipify run do not stay beside those of the next.


@pytest.mark.parametrize("flags", HEADS.values(), ids=HEADS)
def test_2_outputs_of_a_renamed_source_go(world, flags):
    desk = world.desk
    desk.checkout(*flags)
    assert (desk.place / "pytorch/hip/a.hip").is_file()
    commit(world.family.fmt, {"old.cu": "cuda old\n"})
    world.family.version_2()
    commit(world.family.fmt, {"more.cu": None, "renamed.cu": "cuda more\n"})
    desk.checkout(*flags)
    files = listing(desk.place / "pytorch")
    assert "hip/c.hip" in files
    assert "hip/a.hip" not in files
    assert f"{SUBMODULES[0]}/hip/more.hip" in files
    git(world.family.torch / SUBMODULES[0], "fetch", "-q")
    git(world.family.torch / SUBMODULES[0], "checkout", "-q", "FETCH_HEAD")
    commit(world.family.torch, {}, "v3")
    desk.checkout(*flags)
    files = listing(desk.place / "pytorch")
    assert f"{SUBMODULES[0]}/hip/renamed.hip" in files
    assert f"{SUBMODULES[0]}/hip/more.hip" not in files, "in submodules as well"
    desk.checkout("--directory", "fresh", *flags)
    assert files == listing(desk.place / "fresh/pytorch")


def test_2_outputs_that_gitignore_names_go_as_well(world):
    commit(world.family.torch, {"secret.cu": "cuda secret\n"})
    desk = world.desk
    desk.checkout("--head-stays-upstream")
    assert (desk.place / "pytorch/hip/secret.hip").is_file(), "an ignored output is an output"
    commit(world.family.torch, {"secret.cu": None})
    desk.checkout("--head-stays-upstream")
    assert not (desk.place / "pytorch/hip/secret.hip").exists()


# 3. A file that hipify changed in place is no obstacle, unless the user changed it, too.


def test_3_hipified_file_that_the_next_ref_changes(world):
    desk = world.desk
    desk.checkout("--no-commit-hipify")
    world.family.version_2()
    desk.checkout("--no-commit-hipify")
    assert (desk.place / "pytorch/b.h").read_text() == "// hipified\nhip/hip b 2\n"


def test_3_edited_hipified_file_is_named_and_kept(world):
    desk = world.desk
    desk.checkout("--no-commit-hipify")
    desk.write("pytorch/b.h", "edited after hipify\n")
    world.family.version_2()
    refused = desk.checkout("--no-commit-hipify", code=UNSAVED)
    assert "b.h" in refused.stderr
    assert (desk.place / "pytorch/b.h").read_text() == "edited after hipify\n"


# 4. A commit on top is not left behind.


@pytest.mark.parametrize("flags", HEADS.values(), ids=HEADS)
def test_4_commit_on_top_is_not_left_behind(world, flags):
    desk = world.desk
    desk.checkout(*flags)
    desk.write("pytorch/mine.txt", "mine\n")
    desk.git("add", "mine.txt")
    desk.git("commit", "-qm", "mine")
    mine = desk.ref("HEAD")
    for ref in ("main", world.family.v1):
        refused = desk.checkout(*flags, ref=ref, code=UNSAVED)
        assert mine[:10] in refused.stderr
        assert desk.ref("HEAD") == mine
    desk.checkout(*flags, "--keep-branch", "mine")
    assert desk.git("show", "mine:mine.txt") == "mine"
    assert mine in desk.git("rev-list", "mine").splitlines(), "the very commit"


# 5. No tag stays on a commit that it does not belong to.


def test_5_no_hipify_after_hipify_leaves_no_tag(world):
    desk = world.desk
    desk.checkout()
    world.family.version_2()
    desk.checkout("--no-hipify")
    for path, (head, upstream, hipified) in every(desk).items():
        assert (upstream, hipified) == (head, ""), path
    assert "hip/c.hip" not in listing(desk.place / "pytorch")


def test_5_tag_moves_where_hipify_changes_nothing(world):
    desk = world.desk
    desk.checkout()
    nothing = "# nothing to do\n"
    family = world.family
    commit(family.torch, {"tools/amd_build/build_amd.py": nothing})
    desk.checkout()
    for path, (head, upstream, hipified) in every(desk).items():
        assert head == upstream == hipified, path


def test_5_submodule_that_hipify_leaves_alone_is_tagged(world):
    desk = world.desk
    desk.checkout()
    tags = every(desk)
    commit(world.family.fmt, {"fmt.h": "nothing to change\n"})
    git(world.family.torch / SUBMODULES[0], "fetch", "-q")
    git(world.family.torch / SUBMODULES[0], "checkout", "-q", "FETCH_HEAD")
    commit(world.family.torch, {}, "v2")
    desk.checkout()
    head, upstream, hipified = every(desk)[SUBMODULES[0]]
    assert head == upstream == hipified != tags[SUBMODULES[0]][2]


# 6. related_commits is read strictly.


def torch_with(world, related: str) -> str:
    """A plain directory with that pin file, and one branch of `inner` to check out as torchaudio."""
    world.desk.write("torch tree/related_commits", related)
    world.desk.write(
        "rocwright.toml",
        "[[projects.project]]\n"
        'name = "torchaudio"\nalias = "audio"\ndirectory = "pytorch_audio"\nref = "main"\n'
        f'origin = "{world.desk.urls["inner"]}"\nhipify = true\nsubmodules = true\n'
        'pin = { kind = "related_commits", file = "related_commits", key = "torchaudio" }\n',
    )
    return "torch tree"


def audio(world, related: str, *more: str, code: int = 0):
    tree = torch_with(world, related)
    asked = ["--torch-dir", tree, "--config", "rocwright.toml", *more]
    return world.desk.run("checkout", "audio", *asked, code=code)


def pin(world, commit: str = "") -> str:
    return PIN.format(commit=commit or world.family.inner_1, origin=world.desk.urls["inner"])


def test_6_blank_lines_and_comments_are_nothing(world):
    commit(world.family.inner, {"inner.cu": "cuda inner later\n"})
    audio(world, "\n\n# pins\n" + pin(world) + "\n")
    assert world.desk.ref(UPSTREAM, at="pytorch_audio") == world.family.inner_1
    (locked,) = world.desk.lock()["sources"]
    assert (locked["why"], locked["commit"]) == ("pin", world.family.inner_1)
    assert "related_commits:4" in locked["pin"]


def test_6_spaces_around_a_field_do_not_make_the_pin_another_one(world):
    commit(world.family.inner, {"inner.cu": "cuda inner later\n"})
    audio(world, pin(world).replace("|", " | "))
    (locked,) = world.desk.lock()["sources"]
    assert (locked["why"], locked["commit"]) == ("pin", world.family.inner_1)


def test_6_lines_alike_are_one_and_contradictory_ones_an_error(world):
    audio(world, pin(world) + pin(world).replace("ubuntu", "centos") + pin(world))
    newer = commit(world.family.inner, {"inner.cu": "cuda inner later\n"})
    refused = audio(world, pin(world) + pin(world, newer), code=INVALID)
    assert "related_commits:2" in refused.stderr
    assert world.desk.ref(UPSTREAM, at="pytorch_audio") == world.family.inner_1


BAD_LINES = {
    "seven fields": "ubuntu|pytorch|torchaudio|main|{commit}|{origin}|more\n",
    "five fields": "ubuntu|pytorch|torchaudio|main|{commit}\n",
    "a space inside": "ubuntu|pytorch|torch audio|main|{commit} 1|{origin}\n",
    "no commit": "ubuntu|pytorch|torchaudio|main||{origin}\n",
    "short commit": "ubuntu|pytorch|torchaudio|main|1234abc|{origin}\n",
    "no words": "garbage\n",
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_6_bad_line_is_named_and_nothing_is_guessed(world, line):
    """The line after a good one, so that none of its values is taken over."""
    bad = line.format(commit=world.family.inner_1, origin=world.desk.urls["inner"])
    refused = audio(world, pin(world).replace("audio", "vision") + bad, code=INVALID)
    assert "related_commits:2" in refused.stderr
    assert not (world.desk.place / "pytorch_audio").exists()
    assert not (world.desk.place / LOCK).exists()
    assert world.server.count() == 0, "and nobody was asked"


# 7. What was read in the code of other tools.


def triton_config(world) -> tuple[str, ...]:
    """A torch tree with triton's pins, and `nest` as triton."""
    world.desk.write(
        "rocwright.toml",
        "[[projects.project]]\n"
        f'name = "triton"\ndirectory = "triton"\norigin = "{world.desk.urls["nest"]}"\n'
        'hipify = false\nsubmodules = true\nbuild_env = { TRITON_WHEEL_VERSION_SUFFIX = "" }\n'
        "[projects.project.pin]\n"
        'kind = "commit_file"\nfile = ".ci/docker/ci_commit_pins/triton.txt"\n'
        'version_file = ".ci/docker/triton_version.txt"\nrelease_ref = "release/{major}.{minor}.x"\n',
    )
    return ("--config", "rocwright.toml")


def test_7_triton_release_takes_the_branch_of_torchs_version(world):
    desk = world.desk
    git(world.family.nest, "branch", "release/3.4.x")
    newer = commit(world.family.nest, {"nest.txt": "later\n"})
    desk.write("torch tree/.ci/docker/ci_commit_pins/triton.txt", newer + "\n")
    desk.write("torch tree/.ci/docker/triton_version.txt", "3.4.1\n")
    asked = ["--torch-dir", "torch tree", *triton_config(world)]
    desk.run("checkout", "triton", *asked, "--release")
    assert desk.ref("HEAD", at="triton") == world.family.nest_1
    assert not (desk.place / "triton/build_env.json").exists()
    desk.run("checkout", "triton", *asked)
    assert desk.ref("HEAD", at="triton") == newer
    environment = json.loads((desk.place / "triton/build_env.json").read_text())
    assert environment == {"TRITON_WHEEL_VERSION_SUFFIX": ""}


def test_7_pins_are_read_from_the_torch_commit_that_is_locked(world):
    """Not from the torch checkout that happens to lie there, which is at another version."""
    desk, family = world.desk, world.family
    config = triton_config(world)
    pinned = ".ci/docker/ci_commit_pins/triton.txt"
    first = commit(family.torch, {pinned: family.nest_1 + "\n", ".ci/docker/triton_version.txt": "3.4.0\n"})
    newer = commit(family.nest, {"nest.txt": "later\n"})
    commit(family.torch, {pinned: newer + "\n"})
    desk.checkout(*config)
    desk.write(
        "rocwright.toml",
        (desk.place / "rocwright.toml").read_text()
        + f'[[projects.project]]\nname = "torch"\ndirectory = "pytorch"\norigin = "{desk.urls["torch"]}"\n'
        + 'ref = "old"\nhipify = true\nsubmodules = true\n',
    )
    git(family.torch, "branch", "old", first)
    desk.run("checkout", "torch", "triton", *config)
    assert desk.ref(UPSTREAM) == first
    assert desk.ref("HEAD", at="triton") == family.nest_1
    pin = next(row["pin"] for row in desk.lock()["sources"] if row["project"] == "triton")
    assert first in pin


def test_7_branch_that_moved_between_two_runs_is_another_lock_not_another_replay(world):
    desk = world.desk
    desk.checkout()
    locked, before = desk.lock(), every(desk)
    world.family.version_2()
    desk.run("checkout", "torch", "--locked")
    assert every(desk) == before
    desk.run("checkout", "torch", "--locked", "--lock-file", LOCK, "--directory", "again")
    assert every(desk, "again/pytorch") == before
    desk.checkout()
    assert every(desk) != before
    assert desk.lock() != locked


def test_7_broken_submodule_is_an_error_not_silence(world):
    desk = world.desk
    desk.checkout()
    desk.write(Path("pytorch/.git/modules", SUBMODULES[0], "HEAD"), "nonsense")
    refused = desk.run("checkout", "torch", "--locked", code=7)
    assert SUBMODULES[0] in refused.stderr


def test_7_submodule_with_a_space_in_its_path_is_tagged(world):
    desk = world.desk
    desk.checkout()
    assert desk.ref(UPSTREAM, at=f"pytorch/{SUBMODULES[0]}") == world.family.fmt_1
    assert desk.ref(HIPIFY, at=f"pytorch/{SUBMODULES[0]}") == desk.ref("HEAD", at=f"pytorch/{SUBMODULES[0]}")


# What worked before goes on working: a commit id with --depth 1, a submodule that moves.


def test_depth_one_with_a_commit_id(world):
    family, desk = world.family, world.desk
    family.version_2()
    desk.checkout("--depth", "1", ref=family.v1)
    assert desk.ref(UPSTREAM) == family.v1
    assert desk.git("rev-list", "--count", UPSTREAM) == "1"
    desk.checkout("--depth", "1")
    desk.checkout("--directory", "whole")
    assert every(desk) == every(desk, "whole/pytorch")


def test_submodules_stay_empty_on_request(world):
    desk = world.desk
    desk.checkout("--no-submodules")
    assert set(facts(desk)) == {""}
    desk.checkout()
    assert set(facts(desk)) == {"", *SUBMODULES}
    desk.checkout("--no-submodules")
    assert set(facts(desk)) == {""}


def test_no_tags_of_the_server_come_along(world):
    git(world.family.torch, "tag", "v1.0")
    world.desk.checkout()
    tags = world.desk.git("tag").splitlines()
    assert tags == ["THEROCK_HIPIFY_DIFFBASE", "THEROCK_UPSTREAM_DIFFBASE"]


# Refs that moved or went away.


def test_force_pushed_branch(world):
    desk, family = world.desk, world.family
    desk.checkout()
    before = every(desk)
    git(family.torch, "checkout", "-q", "--orphan", "other")
    other = commit(family.torch, {"b.h": "another history\n"})
    git(family.torch, "branch", "-f", "main", other)
    desk.checkout("--no-hipify")
    assert desk.ref("HEAD") == other
    assert desk.ref("refs/remotes/origin/main") == other
    desk.checkout(ref=family.v1)
    assert every(desk) == before


def test_commit_that_upstream_deleted(open_world):
    """A lock of a commit that is gone: the mirror has it; without one the server's word is passed on."""
    world = open_world(hide=True)
    desk, family = world.desk, world.family
    desk.checkout()
    before = every(desk)
    git(family.torch, "checkout", "-q", "--orphan", "other")
    other = commit(family.torch, {"b.h": "another history\n"})
    git(family.torch, "branch", "-f", "main", other)
    again = ["torch", "--locked", "--lock-file", LOCK]
    desk.run("checkout", *again, "--directory", "mirrored")
    assert every(desk, "mirrored/pytorch") == before
    refused = desk.run("checkout", *again, "--directory", "bare", "--no-mirror", code=UNREACHABLE)
    assert family.v1[:10] in refused.stderr
    assert "next:" in refused.stderr


# Traps of the script.


def test_trap_script_is_not_idempotent(world):
    commit(world.family.torch, {"tools/amd_build/build_amd.py": ODD_SCRIPT, "b.h": "driver\n"})
    desk = world.desk
    desk.checkout()
    first = every(desk)
    assert (desk.place / "pytorch/b.h").read_text() == "hip/driver\n"
    desk.run("hipify", "pytorch")
    desk.run("hipify", "pytorch", "--head-stays-upstream")
    assert (desk.place / "pytorch/b.h").read_text() == "hip/driver\n"
    desk.run("hipify", "pytorch")
    assert every(desk) == first


def test_trap_current_directory(world):
    commit(world.family.torch, {"tools/amd_build/build_amd.py": ODD_SCRIPT})
    desk = world.desk
    desk.checkout()
    desk.run("hipify", desk.place / "pytorch", cwd=Path("/"))
    target = desk.place / "from root"
    asked = ["--gitrepo-origin", desk.urls["torch"], "--repo-hashtag", "main", "--no-mirror"]
    desk.run("checkout", "torch", *asked, "--checkout-dir", target, cwd=Path("/"))
    assert every(desk, target) == every(desk)
    assert (target / "found.h").read_text() == "found the tree from the current directory: True\n"


def test_trap_installed_rocm_does_not_reach_the_tree(world):
    desk = world.desk
    rocm = desk.write("rocm/hip/lib/.hipInfo", "HIP_COMPILER=clang\n").parents[1]
    desk.checkout()
    asked = ["--no-mirror", "--directory"]
    desk.checkout(*asked, "with rocm", HIP_PATH=str(rocm), HIP_PLATFORM="nvidia")
    assert every(desk, "with rocm/pytorch") == every(desk)
    desk.checkout(*asked, "for clang", "--hip-clang")
    assert (desk.place / "for clang/pytorch/hip/a.hip").read_text() == "hip a <<<1\n"
    assert (desk.place / "pytorch/hip/a.hip").read_text() == "hip a hipLaunch(1\n"
    report = json.loads(desk.run("hipify", "for clang/pytorch", "--hip-clang", "--json").stdout)
    assert said(report, "hip_clang") == [True]


def test_project_without_a_script_says_so(world):
    commit(world.family.torch, {"tools/amd_build/build_amd.py": None})
    done = world.desk.checkout()
    assert "no hipify script" in done.stdout + done.stderr
    assert world.desk.ref("HEAD") == world.desk.ref(UPSTREAM)
