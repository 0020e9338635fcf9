"""Fetching: what passes is tried again, what does not is said at once, and no login is ever written down."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_repos import commit
from git_repos import git as plain
from git_server import GitServer, serving
from rocwright.errors import InvalidInput, NotOffered, Unreachable
from rocwright.sources.checkout import checkout
from rocwright.sources.lock import LockedSource
from rocwright.sources.mirror import Mirrors
from rocwright.sources.tree import repos
from rocwright.system import git, remote
from rocwright.system.git import Git

SECRET = "hunter2hunter2"
MAIN = "refs/heads/main:refs/x/main"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    commit(tmp_path / "origins/torch", {"a": "one\n" * 50})
    with serving(tmp_path / "origins") as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path) -> Git:
    return git.init(tmp_path / "here/.git", tmp_path / "here", log=tmp_path / "log.txt")


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def expect(self, count: int) -> None:
        raise AssertionError("pieces are counted by whoever begins them")

    def start(self, name: str) -> None:
        raise AssertionError(name)

    def end(self, name: str, state: str, text: str = "") -> None:
        raise AssertionError(name)

    def note(self, name: str, text: str) -> None:
        self.notes.append((name, text))


@pytest.mark.parametrize("how", ["drop", "cut", 500, 502, 503, 429])
def test_what_passes_is_tried_three_times(server: GitServer, repository: Git, how: str | int) -> None:
    server.faults.how, server.faults.first = how, 2
    notes: list[str] = []
    repository.fetch(server.url("torch"), MAIN, pauses_s=(0, 0), note=notes.append)
    assert server.faults.first == 0
    assert sum(note.endswith("; trying again") for note in notes) == 2
    assert repository.resolve("refs/x/main") is not None


@pytest.mark.parametrize("how", ["drop", "cut", 503])
def test_after_three_tries_it_says_so(server: GitServer, repository: Git, how: str | int) -> None:
    server.faults.how, server.faults.first = how, 9
    with pytest.raises(Unreachable, match=r"cannot be read \(tried 3 times\)") as caught:
        repository.fetch(server.url("torch"), MAIN, pauses_s=(0, 0))
    assert server.faults.first == 6
    assert server.url("torch") in str(caught.value)
    assert "run again" in str(caught.value)
    assert repository.refs("refs/x/main") == {}


def test_a_server_that_nobody_runs(repository: Git) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/torch"
        with pytest.raises(Unreachable, match="tried 3 times"):
            git.list_remote(url, pauses_s=(0, 0))


def test_asking_for_refs_is_tried_again_too(server: GitServer) -> None:
    server.faults.how, server.faults.first = 503, 2
    assert "refs/heads/main" in git.list_remote(server.url("torch"), pauses_s=(0, 0))


@pytest.mark.slow
def test_a_dead_connection_ends(
    server: GitServer, repository: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit(tmp_path / "origins/torch", {"a": "two\n"})
    monkeypatch.setenv("GIT_HTTP_LOW_SPEED_TIME", "1")
    server.faults.how, server.faults.first = "stall", 1
    notes: list[str] = []
    repository.fetch(server.url("torch"), MAIN, pauses_s=(0,), note=notes.append)
    assert any("too slow" in note.lower() for note in notes)


def test_connections_die_also_when_nobody_asked(server: GitServer, repository: Git, tmp_path: Path) -> None:
    repository.fetch(server.url("torch"), MAIN)
    log = (tmp_path / "log.txt").read_text()
    assert "GIT_HTTP_LOW_SPEED_LIMIT=1 GIT_HTTP_LOW_SPEED_TIME=120" in log


@pytest.mark.parametrize(
    ("status", "what", "help_"),
    [
        (404, "there is no repository at", "check the address"),
        (401, "denies access", "credential helper"),
        (403, "denies access", "credential helper"),
    ],
)
def test_what_does_not_pass_is_said_at_once(
    server: GitServer, repository: Git, status: int, what: str, help_: str
) -> None:
    server.faults.status = {"torch": status}
    with pytest.raises(Unreachable, match=what) as caught:
        repository.fetch(server.url("torch"), MAIN)
    assert help_ in (caught.value.next_step or "")
    assert server.count() == 1


def test_an_unknown_ref_is_said_at_once(server: GitServer, repository: Git) -> None:
    with pytest.raises(NotOffered, match="does not offer"):
        repository.fetch(server.url("torch"), "refs/heads/nope:refs/x/nope")
    with pytest.raises(Unreachable, match="similar names there: main"):
        git.resolve_remote(server.url("torch"), "maim")


@pytest.mark.parametrize(
    ("said", "what", "help_"),
    [
        ("Host key verification failed.", "ssh key of the host", "known_hosts"),
        ("git@example.org: Permission denied (publickey).", "denies access", "ssh key"),
        ("ERROR: Repository not found.", "there is no repository", "address"),
    ],
)
def test_ssh_refusals_are_said_at_once(
    repository: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, what: str, help_: str
) -> None:
    calls = tmp_path / "calls"
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho call >> {calls}\necho "{said}" >&2\nexit 255\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_VARIANT", "simple")
    monkeypatch.setenv("GIT_SSH", str(ssh))
    with pytest.raises(Unreachable, match=what) as caught:
        repository.fetch("git@example.org:a/b.git", MAIN)
    assert help_ in (caught.value.next_step or "")
    assert calls.read_text() == "call\n"


def test_an_ssh_connection_that_breaks_is_tried_again(
    repository: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f'#!/bin/sh\necho call >> {calls}\necho "Connection reset by 10.0.0.1 port 22" >&2\nexit 255\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_VARIANT", "simple")
    monkeypatch.setenv("GIT_SSH", str(ssh))
    with pytest.raises(Unreachable, match="tried 3 times"):
        repository.fetch("git@example.org:a/b.git", MAIN, pauses_s=(0, 0))
    assert calls.read_text() == "call\n" * 3


@pytest.mark.parametrize(
    ("origin", "tail", "passes"),
    [
        ("https://h/a", "fatal: unable to access 'https://h/a/': Could not resolve host: h", True),
        ("https://h/a", "fatal: unable to access 'https://h/a/': Connection timed out after 300 ms", True),
        (
            "https://h/a",
            "fatal: unable to access: gnutls_handshake() failed: Error in the pull function.",
            True,
        ),
        ("https://h/a", "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502", True),
        ("https://h/a", "error: RPC failed; HTTP 403 curl 22 The requested URL returned error: 403", False),
        (
            "https://h/a",
            "fatal: unable to access: server certificate verification failed. CAfile: none",
            False,
        ),
        ("https://h/a", "fatal: https://h/a/info/refs not valid: is this a git repository?", False),
        ("git@h:a", "Host key verification failed.\nfatal: Could not read from remote repository.", False),
        ("https://h/a", "fatal: something that nobody has seen before", False),
        ("/srv/a", "fatal: the remote end hung up unexpectedly", False),
    ],
)
def test_what_may_pass(origin: str, tail: str, passes: bool) -> None:
    assert remote.may_pass(origin, tail) is passes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Receiving objects:  43% (430/1000), 12.00 MiB | 3.40 MiB/s", "receiving 43 %"),
        ("remote: Counting objects: 100% (12/12), done.        ", "counting 100 %"),
        ("Resolving deltas:   0% (0/7)", "resolving 0 %"),
        ("remote: Total 12 (delta 2), reused 0 (delta 0)", None),
        ("fatal: 43% of nothing", None),
    ],
)
def test_progress_in_words(line: str, said: str | None) -> None:
    assert remote.progress(line) == said


def test_progress_is_told_and_not_logged(server: GitServer, repository: Git, tmp_path: Path) -> None:
    for number in range(30):
        commit(tmp_path / "origins/torch", {f"file{number}": f"{number}\n"})
    told = Told()
    head = plain(tmp_path / "origins/torch", "rev-parse", "HEAD")
    repos.fetch_commit(repository, server.url("torch"), head, watch=told, name="pytorch")
    assert {name for name, _ in told.notes} == {"pytorch"}
    assert ("pytorch", "receiving 100 %") in told.notes
    assert len(told.notes) > 20
    log = (tmp_path / "log.txt").read_text()
    assert "\r" not in log
    assert log.count("Receiving objects") == 1


class TestLogins:
    """A login in an address reaches the server and nothing else."""

    @pytest.fixture
    def guarded(self, server: GitServer) -> str:
        server.faults.login = f"ann:{SECRET}"
        return server.url("torch", login=f"ann:{SECRET}")

    def test_it_opens_the_door(
        self, server: GitServer, guarded: str, repository: Git, tmp_path: Path
    ) -> None:
        ref = git.resolve_remote(guarded, "main", log=tmp_path / "log.txt")
        mirrors = Mirrors(tmp_path / "mirrors")
        repos.fetch_commit(repository, guarded, ref.commit, mirrors=mirrors)
        assert server.count() > 0
        assert self.leaks(tmp_path) == []

    def test_no_command_line_has_it(
        self, guarded: str, repository: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = tmp_path / "seen"
        wrapper = tmp_path / "bin/git"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\necho "$*" >> {seen}\nexec {shutil.which("git")} "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", str(wrapper.parent), prepend=os.pathsep)
        git.list_remote(guarded)
        repository.fetch(guarded, MAIN)
        assert {"ls-remote", "fetch"} <= {*seen.read_text().split()}
        assert SECRET not in seen.read_text()

    def test_a_wrong_one_is_named_nowhere(self, server: GitServer, repository: Git, tmp_path: Path) -> None:
        server.faults.login = "ann:other"
        with pytest.raises(Unreachable, match="denies access") as caught:
            repository.fetch(server.url("torch", login=f"ann:{SECRET}"), MAIN)
        assert SECRET not in str(caught.value) + str(caught.value.__cause__)
        assert self.leaks(tmp_path) == []

    def test_one_in_a_gitmodules_is_left_out(self, repository: Git, server: GitServer) -> None:
        where = repository.work_tree
        url = f"https://ann:{SECRET}@example.org/fmt.git"
        (where / ".gitmodules").write_text(f'[submodule "fmt"]\n\tpath = fmt\n\turl = {url}\n')
        plain(where, "add", ".gitmodules")
        plain(where, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},fmt")
        plain(where, "commit", "-q", "-m", "x")
        (submodule,) = repos.submodules(
            repository, plain(where, "rev-parse", "HEAD"), "https://example.org/a"
        )
        assert submodule.url == "https://example.org/fmt.git"

    @staticmethod
    def leaks(root: Path) -> list[Path]:
        """The files below `root` that hold the secret, plain or encoded, or have it in their name."""
        forms = (SECRET.encode(), b"YW5uOmh1bnRlcjJodW50ZXIy")
        return [
            path
            for path in root.rglob("*")
            if SECRET in path.name or (path.is_file() and any(form in path.read_bytes() for form in forms))
        ]

    @pytest.mark.parametrize(
        ("origin", "written"),
        [
            ("https://ann:secret@example.org/a", "https://example.org/a"),
            ("https://ann:s@cret@example.org:8443/a@b", "https://example.org:8443/a@b"),
            ("https://token@example.org/a", "https://example.org/a"),
            ("ssh://git@example.org/a", "ssh://git@example.org/a"),
            ("ssh://git:secret@example.org:22/a", "ssh://git@example.org:22/a"),
            ("git@example.org:a", "git@example.org:a"),
            ("https://example.org/a@b", "https://example.org/a@b"),
            ("/srv/a@b", "/srv/a@b"),
        ],
    )
    def test_what_may_be_written(self, origin: str, written: str) -> None:
        assert git.without_login(origin) == written
        assert "secret" not in git.shown(origin)
        assert "cret@" not in git.shown(origin)


def test_a_remote_project_gets_no_files_of_this_machine(repository: Git, tmp_path: Path) -> None:
    where = repository.work_tree
    url = (tmp_path / "origins/torch").as_uri()
    (where / ".gitmodules").write_text(f'[submodule "fmt"]\n\tpath = fmt\n\turl = {url}\n')
    plain(where, "add", ".gitmodules")
    plain(where, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},fmt")
    plain(where, "commit", "-q", "-m", "x")
    head = plain(where, "rev-parse", "HEAD")
    with pytest.raises(InvalidInput, match="of this machine"):
        repos.submodules(repository, head, "https://example.org/torch")
    assert repos.submodules(repository, head, "/srv/torch")[0].url == url


@pytest.mark.slow
class TestManySubmodules:
    """A project with twelve submodules behind a server that takes its time."""

    COUNT = 12

    @pytest.fixture(scope="class")
    @classmethod
    def origins(cls, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
        """The repositories, and two commits of the project between which every submodule moves."""
        root = tmp_path_factory.mktemp("many")
        names = [f"sub{number}" for number in range(cls.COUNT)]
        modules = "".join(
            f'[submodule "{name}"]\n\tpath = third_party/{name}\n\turl = ../{name}\n' for name in names
        )
        commits = [commit(root / "torch", {".gitmodules": modules})]
        for text in ("1\n", "2\n"):
            pins = [f"160000,{commit(root / n, {'file': text})},third_party/{n}" for n in names]
            for pin in pins:
                plain(root / "torch", "update-index", "--add", "--cacheinfo", pin)
            plain(root / "torch", "commit", "-q", "-m", "pins")
            commits.append(plain(root / "torch", "rev-parse", "HEAD"))
        return root, commits[1:]

    @pytest.fixture
    def server(self, origins: tuple[Path, list[str]]) -> Iterator[GitServer]:
        with serving(origins[0]) as running:
            yield running

    @pytest.fixture
    def locked(self, server: GitServer, origins: tuple[Path, list[str]]) -> list[LockedSource]:
        return [
            LockedSource(
                project="torch",
                origin=server.url("torch"),
                ref="refs/heads/main",
                commit=one,
                why="flag",
                directory="pytorch",
                hipify=False,
            )
            for one in origins[1]
        ]

    @pytest.mark.parametrize("mirrored", [False, True])
    def test_a_repin_fetches_them_side_by_side(
        self, server: GitServer, locked: list[LockedSource], tmp_path: Path, mirrored: bool
    ) -> None:
        mirrors = Mirrors(tmp_path / "mirrors") if mirrored else None
        checkout(locked[0], tmp_path / "pytorch", jobs=self.COUNT, mirrors=mirrors)
        server.forget()
        server.faults.latency_s = 0.3
        checkout(locked[1], tmp_path / "pytorch", jobs=self.COUNT, mirrors=mirrors)
        assert (tmp_path / "pytorch/third_party/sub11/file").read_text() == "2\n"
        # One after the other they would be as many rounds as requests.
        assert server.count() >= 2 * (self.COUNT + 1)
        assert server.rounds() <= 8
        assert server.peak() > self.COUNT / 2

    def test_a_second_place_fetches_nothing(
        self, server: GitServer, locked: list[LockedSource], tmp_path: Path
    ) -> None:
        mirrors = Mirrors(tmp_path / "mirrors")
        checkout(locked[1], tmp_path / "one", mirrors=mirrors)
        server.forget()
        checkout(locked[1], tmp_path / "two", mirrors=mirrors)
        checkout(locked[0], tmp_path / "two", mirrors=mirrors)
        assert server.count() == 0
        assert (tmp_path / "two/third_party/sub0/file").read_text() == "1\n"
