"""Mirrors: one for each repository however its address is spelled, never half, never depended on."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_repos import commit
from git_repos import git as plain
from git_server import GitServer, serving
from rocwright.errors import InvalidInput, Unreachable
from rocwright.sources.fetch import read_files
from rocwright.sources.mirror import Mirrors, default_root, has_its_packs, record_packs
from rocwright.sources.tree import repos
from rocwright.system import git, locks
from rocwright.system.git import Git

# Many processes of git: seconds each.
pytestmark = pytest.mark.slow


class World:
    """An origin with three commits behind a server, and mirrors that are still empty."""

    def __init__(self, root: Path, server: GitServer, commits: tuple[str, str, str]) -> None:
        self.root, self.server, self.commits = root, server, commits
        self.origin = server.root / "torch"
        self.url = server.url("torch")
        self.mirrors = Mirrors(root / "mirrors", (0, 0))

    @property
    def place(self) -> Path:
        key = self.mirrors.key(self.url)
        assert key is not None
        return self.mirrors.root / key

    def checkout(self, where: str, which: int = 2, **options: object) -> Git:
        """A new repository with one of the commits."""
        repository = git.init(self.root / where / ".git", self.root / where)
        options = {"mirrors": self.mirrors, "ref": "refs/heads/main", **options}
        repos.fetch_commit(repository, self.url, self.commits[which], **options)
        return repository


@pytest.fixture(scope="module")
def _origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str, str]]:
    root = tmp_path_factory.mktemp("origins")
    # Larger than what git takes from the network in one piece, so that a connection can end inside.
    noise = random.Random(1).randbytes(300_000).hex()
    first = commit(root / "torch", {"big": noise, "ci/pin.txt": "one\n"})
    second = commit(root / "torch", {"ci/pin.txt": "two\n"})
    third = commit(root / "torch", {"ci/pin.txt": "three\n", "small": noise[:2000]})
    return root, (first, second, third)


@pytest.fixture
def world(_origin: tuple[Path, tuple[str, str, str]], tmp_path: Path) -> Iterator[World]:
    root, commits = _origin
    with serving(root) as server:
        yield World(tmp_path, server, commits)


def sound(repository: Git, commit: str) -> bool:
    """Whether plain git finds everything below a commit."""
    return plain(repository.work_tree, "fsck", "--connectivity-only", "--no-dangling", commit) == ""


ALIKE = [
    "https://github.com/pytorch/pytorch.git",
    "https://github.com/pytorch/pytorch",
    "https://github.com/pytorch/pytorch/",
    "https://github.com//pytorch/./pytorch.git/",
    "https://GitHub.com:443/pytorch/pytorch.git",
    "http://github.com:80/pytorch/pytorch",
    "https://ann:secret@github.com/pytorch/pytorch.git",
    "https://ann:s@cret@github.com/pytorch/pytorch.git",
    "https://github.com/%70ytorch/pytorch.git",
    "git@github.com:pytorch/pytorch.git",
    "github.com:pytorch/pytorch",
    "github.com:/pytorch/pytorch",
    "ssh://git@github.com/pytorch/pytorch.git",
    "ssh://git@github.com:22/pytorch/pytorch.git",
    "git://github.com/pytorch/pytorch",
]


@pytest.mark.parametrize("origin", ALIKE)
def test_one_repository_has_one_mirror(origin: str) -> None:
    assert Mirrors(Path("m")).key(origin) == PurePosixPath("github.com/pytorch/pytorch.git")


@pytest.mark.parametrize(
    ("origin", "key"),
    [
        ("https://example.org:8443/a/b", "example.org%3A8443/a/b.git"),
        ("https://example.org:80/a/b", "example.org%3A80/a/b.git"),
        ("ssh://[::1]:2222/a/b.git", "%5B%3A%3A1%5D%3A2222/a/b.git"),
        ("git@[::1]:a/b", "%5B%3A%3A1%5D/a/b.git"),
        ("https://example.org/../../etc/passwd", "example.org/%2E%2E/%2E%2E/etc/passwd.git"),
        ("https://example.org/%2e%2e/b", "example.org/%2E%2E/b.git"),
        ("https://../a/b", None),
        ("https://example.org/a/.git", "example.org/a/%2Egit.git"),
        ("https://example.org/a.git/b", "example.org/a%2Egit/b.git"),
        ("https://example.org/a/b.git.git", "example.org/a/b.git.git"),
        ("https://example.org/a b/c:d", "example.org/a%20b/c%3Ad.git"),
        ("https://example.org/aux/Con.txt", "example.org/%61ux/%43on.txt.git"),
        ("https://example.org/a/..", "example.org/a/%2E%2E.git"),
        ("/srv/git/torch", None),
        ("../torch", None),
        ("C:/git/torch", None),
        ("file:///srv/git/torch", None),
        ("https://example.org/", None),
    ],
)
def test_odd_addresses(origin: str, key: str | None) -> None:
    found = Mirrors(Path("m")).key(origin)
    assert found == (None if key is None else PurePosixPath(key))


HOSTS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z]{2,4}){0,2}", fullmatch=True)
PART = st.text(st.characters(codec="utf-8", exclude_characters="/\0?#"), min_size=1, max_size=130)


def quoted(part: str) -> str:
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02x}" for b in part.encode())


@given(HOSTS, st.lists(PART, min_size=1, max_size=4))
def test_no_key_leaves_the_root(host: str, parts: list[str]) -> None:
    key = Mirrors(Path("m")).key(f"https://{host}/" + "/".join(map(quoted, parts)))
    if key is None:
        assert all(part == "." for part in parts)
        return
    assert not key.is_absolute()
    assert key.name.endswith(".git")
    for part in key.parts:
        assert re.fullmatch(r"(?!\.)[A-Za-z0-9_.+%-]+(?<!\.)", part)
        assert len(part) <= 110
        assert not re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", part, re.IGNORECASE)
    # No mirror lies inside another.
    assert not any(part.lower().endswith(".git") for part in key.parts[:-1])


@given(HOSTS, HOSTS, st.lists(PART, min_size=1, max_size=3), st.lists(PART, min_size=1, max_size=3))
def test_different_repositories_have_different_keys(
    host: str, other_host: str, parts: list[str], other: list[str]
) -> None:
    def meant(host: str, parts: list[str]) -> tuple[str, ...]:
        real = [part for part in parts if part != "."]
        last = real[-1].removesuffix(".git") or real[-1] if real else ""
        return (host, *real[:-1], last) if real else ()

    mirrors = Mirrors(Path("m"))
    keys = [
        mirrors.key(f"https://{name}/" + "/".join(map(quoted, path)))
        for name, path in ((host, parts), (other_host, other))
    ]
    assert (keys[0] == keys[1]) == (meant(host, parts) == meant(other_host, other) or keys == [None, None])


@given(HOSTS, st.lists(st.from_regex(r"[A-Za-z0-9_-]{1,9}", fullmatch=True), min_size=1, max_size=3))
def test_https_and_ssh_of_one_repository_agree(host: str, parts: list[str]) -> None:
    path, mirrors = "/".join(parts), Mirrors(Path("m"))
    spelled = [
        f"https://{host}/{path}.git",
        f"ssh://git@{host}/{path}",
        f"https://x:y@{host.upper()}/{path}/",
    ]
    if len(host) > 1:  # one letter before a colon is a Windows drive
        spelled.append(f"git@{host}:{path}.git")
    assert {mirrors.key(origin) for origin in spelled} == {PurePosixPath(host, f"{path}.git")}


def test_where_mirrors_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROCWRIGHT_MIRRORS", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_root() == Path.home() / ".cache/rocwright/git"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "rocwright/git"
    monkeypatch.setenv("ROCWRIGHT_MIRRORS", str(tmp_path / "shared"))
    assert default_root() == tmp_path / "shared"


def test_a_second_checkout_fetches_nothing_and_stands_alone(world: World) -> None:
    world.checkout("one")
    assert world.server.count() > 0
    world.server.forget()
    second = world.checkout("two")
    older = world.checkout("three", 0)
    assert world.server.count() == 0
    links = [*(second.git_dir / "objects/pack").glob("*.pack")]
    assert links
    assert all(path.stat().st_nlink > 1 for path in links)
    shutil.rmtree(world.mirrors.root)
    assert sound(second, world.commits[2])
    assert sound(older, world.commits[0])
    assert not (second.git_dir / "objects/info/alternates").exists()
    assert str(world.mirrors.root) not in (second.git_dir / "config").read_text()
    assert plain(second.work_tree, "show", f"{world.commits[2]}:ci/pin.txt") == "three"


def test_a_second_commit_fetches_only_what_is_new(world: World) -> None:
    world.checkout("one", 1)
    whole = world.server.sent()
    world.server.forget()
    assert sound(world.checkout("two", 2), world.commits[2])
    assert 0 < world.server.sent() < whole / 10


def test_at_the_same_time_one_fetches_and_the_others_wait(world: World) -> None:
    world.checkout("alone")
    requests = world.server.count()
    shutil.rmtree(world.mirrors.root)
    world.server.forget()
    world.server.faults.latency_s = 0.3
    notes: list[tuple[str, str]] = []

    class Told:
        def expect(self, count: int) -> None:
            raise AssertionError

        start = end = expect

        def note(self, name: str, text: str) -> None:
            notes.append((name, text))

    names = ["a", "b", "c", "d"]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda name: world.checkout(name, watch=Told(), name=name), names))
    assert world.server.count() == requests
    assert all(sound(repository, world.commits[2]) for repository in made)
    assert {text for _, text in notes if "%" not in text} == {"waiting for another run that fetches it"}


FETCH = """
import sys
from pathlib import Path
from rocwright.sources.tree import repos
from rocwright.sources.mirror import Mirrors
from rocwright.system import git

place, root, url, commit = sys.argv[1:]
repository = git.init(Path(place, ".git"), Path(place))
repos.fetch_commit(repository, url, commit, mirrors=Mirrors(Path(root)))
"""


def start(world: World, name: str) -> subprocess.Popen[bytes]:
    words = [str(world.root / name), str(world.mirrors.root), world.url, world.commits[2]]
    return subprocess.Popen([sys.executable, "-c", FETCH, *words])


def test_two_runs_at_the_same_time_fetch_once(world: World) -> None:
    world.checkout("alone")
    requests = world.server.count()
    shutil.rmtree(world.mirrors.root)
    world.server.forget()
    world.server.faults.latency_s = 0.4
    runs = [start(world, name) for name in ("a", "b")]
    assert [run.wait() for run in runs] == [0, 0]
    assert world.server.count() == requests


def test_a_killed_run_leaves_no_half_mirror(world: World) -> None:
    world.server.faults.how, world.server.faults.first = "stall", 1
    run = start(world, "killed")
    while not any(world.mirrors.root.rglob("tmp_pack_*")):
        assert run.poll() is None
        time.sleep(0.01)
    assert world.mirrors.repository(world.url) is None
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert sound(world.checkout("next"), world.commits[2])
    assert world.mirrors.repository(world.url) is not None
    assert not [*world.mirrors.root.rglob("tmp_*")]
    assert not any((world.mirrors.root / ".partial").rglob("*.git"))


def drop_pack(place: Path) -> None:
    next((place / "objects/pack").glob("*.pack")).unlink()


def cut_pack(place: Path) -> None:
    cut(next((place / "objects/pack").glob("*.pack")))


def cut_and_fill_pack(place: Path) -> None:
    path = next((place / "objects/pack").glob("*.pack"))
    size = path.stat().st_size
    cut(path)
    os.truncate(path, size)


def cut(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size // 2)


def drop_index(place: Path) -> None:
    next((place / "objects/pack").glob("*.idx")).unlink()


def drop_head(place: Path) -> None:
    (place / "HEAD").unlink()


def cut_record(place: Path) -> None:
    cut(place / "rocwright-packs.json")


def empty(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir()


def lose_a_commit(place: Path) -> None:
    """A ref to what is not there: noticed by git itself, when it fetches into it."""
    (place / "refs/rocwright/commits" / ("1" * 40)).write_text("1" * 40 + "\n")


DAMAGES = [drop_pack, cut_pack, cut_and_fill_pack, drop_index, drop_head, cut_record, empty]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_mirror_is_made_anew(world: World, damage: object) -> None:
    world.checkout("one")
    assert callable(damage)
    damage(world.place)
    world.server.forget()
    assert world.mirrors.repository(world.url) is None
    assert sound(world.checkout("two"), world.commits[2])
    assert world.server.count() > 0
    world.server.forget()
    world.checkout("three")
    assert world.server.count() == 0
    assert not any((world.mirrors.root / ".damaged").rglob("*.git"))


def empty_refs(place: Path) -> None:
    """As a machine leaves them that lost its power."""
    for path in (place / "refs/rocwright").rglob("*"):
        if path.is_file():
            path.write_text("")


def zero_refs(place: Path) -> None:
    for path in (place / "refs/rocwright").rglob("*"):
        if path.is_file():
            path.write_text("0" * 40 + "\n")


def spoil_configuration(place: Path) -> None:
    (place / "config").write_text("[core\n")


@pytest.mark.parametrize("damage", [empty_refs, zero_refs, spoil_configuration])
def test_a_mirror_that_git_cannot_read_is_made_anew(world: World, damage: Callable[[Path], None]) -> None:
    world.checkout("one")
    damage(world.place)
    ref = "refs/rocwright/kept"
    here = git.init(world.root / "here/.git", world.root / "here")
    world.mirrors.keep(world.url, world.commits[2], ref, world.checkout("other", 2, mirrors=None))
    assert world.mirrors.find(world.url, ref, here) is None
    assert read_files(world.url, world.commits[2], ["ci/pin.txt"], mirror=world.mirrors.repository(world.url))
    assert sound(world.checkout("shallow", depth=1), world.commits[2])
    assert sound(world.checkout("two"), world.commits[2])
    world.server.forget()
    world.checkout("three")
    assert world.server.count() == 0


def test_a_pack_that_cannot_be_read_does_not_hide_what_the_server_has(world: World) -> None:
    world.checkout("one")
    for path in (world.place / "objects/pack").glob("*.pack"):
        whole = path.read_bytes()
        path.unlink()
        path.write_bytes(whole[:12] + bytes(len(whole) - 32) + whole[-20:])
    notes: list[str] = []

    class Tells:
        def note(self, name: str, text: str) -> None:
            notes.append(text)

    assert sound(world.checkout("two", watch=Tells()), world.commits[2])
    assert "its mirror cannot be read" in notes


def test_a_mirror_that_cannot_be_written_is_no_reason_to_fail(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = world.checkout("one")

    def refuse(*_: object) -> None:
        raise InvalidInput("cannot write torch.lock: Permission denied")

    monkeypatch.setattr(locks, "turn", refuse)
    world.mirrors.keep(world.url, world.commits[2], "refs/rocwright/kept", there)
    assert world.mirrors.find(world.url, "refs/rocwright/kept", there) is None


def test_a_mirror_that_git_calls_broken_is_made_anew(world: World) -> None:
    world.checkout("one", 0)
    lose_a_commit(world.place)
    assert sound(world.checkout("two", 2), world.commits[2])
    mirror = world.mirrors.repository(world.url)
    assert mirror is not None
    assert "1" * 40 not in plain(mirror.git_dir, "for-each-ref")
    world.server.forget()
    world.checkout("three")
    assert world.server.count() == 0


def test_a_mirror_out_of_reach_is_a_named_error(world: World) -> None:
    world.mirrors.root.write_text("a file\n")
    with pytest.raises(InvalidInput, match="no mirror can be kept") as caught:
        world.checkout("one")
    assert "--no-mirror" in str(caught.value)


def test_an_origin_that_fails_leaves_no_mirror(world: World) -> None:
    world.server.faults.status = {"torch": 404}
    with pytest.raises(Unreachable, match="no repository"):
        world.checkout("one")
    assert not world.place.exists()
    assert not any((world.mirrors.root / ".partial").rglob("*.git"))


def test_on_another_file_system_objects_are_copied(world: World) -> None:
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == world.root.stat().st_dev:
        pytest.skip("this machine has one file system only")
    world.checkout("one")
    world.server.forget()
    place = shm / f"rocwright-test-{os.getpid()}"
    try:
        repository = git.init(place / ".git", place)
        repos.fetch_commit(repository, world.url, world.commits[2], mirrors=world.mirrors)
        assert world.server.count() == 0
        shutil.rmtree(world.mirrors.root)
        assert sound(repository, world.commits[2])
    finally:
        shutil.rmtree(place)


def test_into_a_shallow_repository(world: World) -> None:
    repository = world.checkout("one", 1, depth=1, mirrors=None)
    assert plain(repository.work_tree, "rev-list", "--count", world.commits[1]) == "1"
    repos.fetch_commit(repository, world.url, world.commits[2], mirrors=world.mirrors)
    assert sound(repository, world.commits[2])
    assert plain(repository.work_tree, "show", f"{world.commits[2]}:ci/pin.txt") == "three"


def test_a_depth_reads_the_mirror_but_never_fills_it(world: World) -> None:
    first = world.checkout("one", depth=1)
    assert plain(first.work_tree, "rev-list", "--count", world.commits[2]) == "1"
    assert not world.place.exists()
    world.checkout("two")
    world.server.forget()
    third = world.checkout("three", depth=1)
    assert world.server.count() == 0
    assert plain(third.work_tree, "rev-list", "--count", world.commits[2]) == "1"


@pytest.mark.parametrize("which", [0, 2])
def test_a_server_that_hands_out_only_tips(world: World, which: int) -> None:
    world.server.faults.hide = True
    assert sound(world.checkout("one", which), world.commits[which])
    world.server.forget()
    # What lies below what was fetched costs nothing more.
    assert sound(world.checkout("two", 0), world.commits[0])
    assert world.server.count() == 0
    assert plain(world.place, "for-each-ref", "refs/rocwright/found") == ""


def test_a_repository_of_this_machine_needs_no_mirror(world: World) -> None:
    repository = git.init(world.root / "one/.git", world.root / "one")
    repos.fetch_commit(repository, world.origin.as_uri(), world.commits[2], mirrors=world.mirrors)
    assert sound(repository, world.commits[2])
    assert not world.mirrors.root.exists()


def hipified(repository: Git, parent: str, ref: str) -> str:
    """A commit on top of `parent`, as loose objects, kept under `ref`."""
    where = repository.work_tree
    made = plain(where, "commit-tree", f"{parent}^{{tree}}", "-p", parent, "-m", "hipified")
    plain(where, "update-ref", ref, made)
    return made


def test_a_kept_commit_is_found_in_another_checkout(world: World) -> None:
    ref = "refs/rocwright/hipified/abc"
    one, two = world.checkout("one"), world.checkout("two")
    assert world.mirrors.find(world.url, ref, two) is None
    made = hipified(one, world.commits[2], ref)
    world.mirrors.keep(world.url, made, ref, one)
    world.mirrors.keep(world.url, made, ref, one)
    shutil.rmtree(one.work_tree)
    assert world.mirrors.find(world.url, ref, two) == made
    assert plain(two.work_tree, "rev-parse", ref) == made
    assert sound(two, made)
    assert world.mirrors.find(world.url, ref + "d", two) is None


def test_what_a_mirror_cannot_hold_whole_is_not_kept(world: World) -> None:
    ref = "refs/rocwright/hipified/abc"
    shallow = world.checkout("shallow", depth=1)
    made = hipified(shallow, world.commits[2], ref)
    world.mirrors.keep(world.url, made, ref, shallow)  # there is no mirror at all
    world.checkout("older", 0)
    world.mirrors.keep(world.url, made, ref, shallow)  # and now one without the parent
    assert world.mirrors.find(world.url, ref, shallow) is None
    world.checkout("newer", 2)
    world.mirrors.keep(world.url, made, ref, shallow)
    other = world.checkout("other", depth=1)
    assert world.mirrors.find(world.url, ref, other) == made
    assert sound(other, made)


@pytest.mark.parametrize("mirrored", [True, False])
def test_files_are_read_without_a_checkout(world: World, mirrored: bool) -> None:
    if mirrored:
        world.checkout("one")
    world.server.forget()
    names = ["ci/pin.txt", "missing", "ci"]
    found = read_files(world.url, world.commits[1], names, mirror=world.mirrors.repository(world.url))
    assert found == {"ci/pin.txt": "two\n"}
    assert (world.server.count() == 0) == mirrored
    # The large file of the commit stayed where it is.
    assert world.server.sent() < 5000
    assert world.place.exists() == mirrored


@pytest.mark.parametrize("fault", ["no_filter", "hide"])
def test_files_are_read_from_simple_servers_too(world: World, fault: str) -> None:
    setattr(world.server.faults, fault, True)
    found = read_files(world.url, world.commits[1], ["ci/pin.txt"], ref="refs/heads/main")
    assert found == {"ci/pin.txt": "two\n"}


def test_files_of_a_commit_that_is_nowhere(world: World) -> None:
    with pytest.raises(Unreachable, match="in no branch or tag"):
        read_files(world.url, "1" * 40, ["ci/pin.txt"])


def test_many_packs_are_joined_and_nothing_is_lost(tmp_path: Path) -> None:
    repository = git.init(tmp_path / "m", tmp_path / "m")
    blobs = []
    for number in range(41):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"{number}\n")
        blobs.append(plain(repository.work_tree, "--git-dir=.", "hash-object", "-w", str(path)))
        listed = tmp_path / "listed"
        listed.write_text(blobs[-1] + "\n")
        with listed.open() as stream:
            subprocess.run(
                ["git", "--git-dir=.", "pack-objects", "-q", "objects/pack/pack"],
                cwd=repository.git_dir, stdin=stream, check=True, capture_output=True,
            )  # fmt: skip
    record_packs(repository)
    assert len([*(repository.git_dir / "objects/pack").glob("*.pack")]) < 5
    assert has_its_packs(repository.git_dir)
    # None of these is below a ref: a mirror drops nothing.
    kinds = [plain(repository.git_dir, "--git-dir=.", "cat-file", "-t", blob) for blob in blobs]
    assert kinds == ["blob"] * 41
