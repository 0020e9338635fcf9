"""Bad input and bad luck at the command line: what is wrong, where, what next; nothing half-made.

Everything runs as an unprivileged user. Runs are killed by a signal nobody can catch, with all processes
that they started, as a machine does that loses its power.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from git_repos import commit, git
from real.sources.desk import HIPIFY, LOCK, SUBMODULES, UPSTREAM, Desk, facts, judged, listing

REFUSED, USAGE, INVALID, UNREACHABLE, NO_SPACE = 1, 2, 3, 5, 8


def explains(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Assert that an error says these words, and what to do next."""
    for word in words:
        assert word in done.stderr, f"{word!r} is not said: {done.stderr}"
    assert "next:" in done.stderr, done.stderr


def untouched(desk: Desk) -> None:
    """Assert that a run which was refused made nothing."""
    assert sorted(path.name for path in desk.place.iterdir() if path.name != ".home") == []


# Refs and servers.


def test_unknown_ref_shows_names_that_are_near(world):
    git(world.family.torch, "branch", "release/2.9")
    explains(world.desk.checkout(ref="relase/2.9", code=UNREACHABLE), "relase/2.9", "release/2.9")
    untouched(world.desk)


@pytest.mark.parametrize("ref", ["1234abc", "", "--upload-pack=touch x", "a b", "main..v1"])
def test_ref_that_is_none(world, ref):
    asked = ["torch", "--gitrepo-origin", world.desk.urls["torch"], f"--repo-hashtag={ref}"]
    done = world.desk.run("checkout", *asked, code=(USAGE, UNREACHABLE))
    assert (ref or "--repo-hashtag") in done.stderr
    untouched(world.desk)


def test_commit_that_does_not_exist(world):
    missing = "0123456789" * 4
    explains(world.desk.checkout(ref=missing, code=UNREACHABLE), missing[:10])
    assert not (world.desk.place / "pytorch/readme").exists()
    world.desk.checkout()
    assert (world.desk.place / "pytorch/readme").exists(), "and the place is usable"


def test_closed_port_is_tried_again_and_then_named(world):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/torch"
        done = world.desk.run(
            *("checkout", "torch", "--gitrepo-origin", address, "--repo-hashtag", "main"), code=UNREACHABLE
        )
    explains(done, address, "3")
    untouched(world.desk)


@pytest.mark.parametrize("how", ["drop", "cut", 503])
def test_server_that_recovers_is_asked_again(open_world, how):
    world = open_world(first=2, how=how)
    world.desk.checkout()
    assert world.desk.ref(UPSTREAM) == world.family.v1


def test_repository_that_is_not_there_is_asked_for_once(world):
    address = world.server.url("nothing-here")
    asked = ["--gitrepo-origin", address, "--repo-hashtag", "main"]
    done = world.desk.run("checkout", "torch", *asked, code=UNREACHABLE)
    assert "/nothing-here" in done.stderr
    assert world.server.count() <= 2
    untouched(world.desk)


def test_submodule_that_cannot_be_had_is_named(open_world):
    world = open_world(status={"inner": 404})
    explains(world.desk.checkout(code=UNREACHABLE), "/inner")
    world.server.faults.status.clear()
    world.desk.checkout()
    assert world.desk.ref(UPSTREAM, at=f"pytorch/{SUBMODULES[2]}") == world.family.inner_1


def test_password_of_an_address_is_shown_and_written_nowhere(open_world):
    world = open_world(login="uma:geheim")
    address = world.server.url("torch", login="uma:geheim")
    asked = ["--gitrepo-origin", address, "--repo-hashtag", "main", "--no-submodules"]
    done = world.desk.run("checkout", "torch", *asked, code=(0, USAGE, UNREACHABLE))
    assert "geheim" not in done.stdout + done.stderr
    for path in world.desk.place.rglob("*"):
        if path.is_file():
            assert b"geheim" not in path.read_bytes(), path


# Locks.


def test_locked_without_a_lock(world):
    explains(world.desk.run("checkout", "torch", "--locked", code=INVALID), LOCK)
    untouched(world.desk)


def _unknown_field(lock: dict) -> None:
    lock["sources"][0]["colour"] = "red"


def _short_commit(lock: dict) -> None:
    lock["sources"][0]["commit"] = "1234abc"


def _directory_outside(lock: dict) -> None:
    lock["sources"][0]["directory"] = "../outside"


def _option_for_an_origin(lock: dict) -> None:
    lock["sources"][0]["origin"] = "--upload-pack=touch /tmp/owned"


def _twice(lock: dict) -> None:
    lock["sources"].append({**lock["sources"][0], "commit": "0" * 40})


def _newer_schema(lock: dict) -> None:
    lock["schema"] = 99


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (_unknown_field, "colour"),
        (_short_commit, "1234abc"),
        (_directory_outside, "outside"),
        (_option_for_an_origin, "origin"),
        (_twice, "torch"),
        (_newer_schema, "99"),
    ],
)
def test_damaged_lock_is_refused_before_anything(world, damage: Callable[[dict], None], word):
    desk = world.desk
    desk.checkout()
    lock = desk.lock()
    damage(lock)
    desk.write("damaged.json", json.dumps(lock))
    asked = ["--locked", "--lock-file", "damaged.json", "--directory", "new"]
    done = desk.run("checkout", "torch", *asked, code=INVALID)
    assert "damaged.json" in done.stderr
    assert word in done.stderr
    assert not list(desk.place.glob("new/*"))


def test_lock_that_is_cut_off(world):
    desk = world.desk
    desk.checkout()
    text = (desk.place / LOCK).read_text()
    desk.write(LOCK, text[: len(text) // 2])
    assert LOCK in desk.run("checkout", "torch", "--locked", code=INVALID).stderr


def test_lock_of_another_platform(world):
    desk = world.desk
    desk.checkout()
    lock = desk.lock()
    assert lock["platform"] == "linux"
    desk.write(LOCK, json.dumps({**lock, "platform": "windows"}))
    done = subprocess.run(
        desk.command("checkout", "torch", "--locked"),
        cwd=desk.place,
        env=desk.env(),
        text=True,
        capture_output=True,
    )
    judged(done, done.returncode)
    assert done.returncode in (USAGE, INVALID)
    assert "windows" in done.stderr
    assert "linux" in done.stderr


def test_replay_that_becomes_something_else_says_so(world):
    """A lock that promises another hipified commit than this machine makes."""
    desk = world.desk
    desk.checkout()
    lock = desk.lock()
    (source,) = lock["sources"]
    assert source["outcome"]["tip"] == desk.ref("HEAD")
    source["outcome"]["tip"] = source["outcome"]["hipify_commit"] = "0" * 40
    desk.write("other.json", json.dumps(lock))
    asked = ["--locked", "--lock-file", "other.json", "--directory", "new"]
    done = desk.run("checkout", "torch", *asked, code=6)
    assert "000000" in done.stderr
    assert desk.ref("HEAD")[:10] in done.stderr


# Pins.


@pytest.mark.parametrize("command", ["audio", "vision", "apex"])
def test_required_pin_without_a_torch_checkout(world, command):
    done = world.desk.run("checkout", command, "--require-related-commit", code=INVALID)
    explains(done, "torch")
    untouched(world.desk)


def test_triton_without_a_torch_checkout(world):
    explains(world.desk.run("checkout", "triton", code=(USAGE, INVALID)), "torch")
    untouched(world.desk)


def test_triton_script_without_a_torch_checkout(world):
    desk = world.desk
    asked = ["checkout", "--checkout-dir", desk.place / "triton", "--torch-dir", desk.place / "nowhere"]
    explains(desk.script("triton", *asked, code=(USAGE, INVALID)), "torch")
    untouched(desk)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"main\n",
        b"1234abc\n",
        b"\xff\xfe\n",
        b"a" * 40 + b" more\n",
        b"0" * 40 + b"\n" + b"1" * 40,
    ],
    ids=["empty", "blank", "branch", "short", "binary", "two words", "two lines"],
)
def test_triton_pin_that_is_none(world, content):
    desk = world.desk
    pin = ".ci/docker/ci_commit_pins/triton.txt"
    desk.write(f"tree/{pin}", content)
    done = desk.run("checkout", "triton", "--torch-dir", "tree", code=INVALID)
    assert "triton.txt" in done.stderr
    assert not (desk.place / "triton").exists()


# Places.


@pytest.mark.parametrize("name", ["-dash", "日本 ümläut", "a" * 200, "quote'\"$(x)"])
def test_path_with_odd_characters(world, name):
    desk = world.desk
    desk.checkout(f"--checkout-dir={desk.place / name}")
    assert desk.ref(HIPIFY, at=name) == desk.ref("HEAD", at=name)
    desk.checkout(f"--checkout-dir={desk.place / name}")
    desk.run("hipify", desk.place / name)


def test_checkout_dir_that_is_a_file(world):
    path = world.desk.write("taken", "mine\n")
    done = world.desk.checkout("--checkout-dir", path, code=USAGE)
    explains(done, str(path))
    assert path.read_text() == "mine\n"


def test_checkout_dir_with_other_files(world):
    path = world.desk.write("taken/file", "mine\n").parent
    explains(world.desk.checkout("--checkout-dir", path, code=USAGE), str(path))
    assert listing(path) == {"file": b"mine\n"}


def test_directory_that_cannot_be_written(world):
    place = world.desk.write("closed/x", "").parent
    place.chmod(0o555)
    done = world.desk.checkout("--directory", place, code=INVALID)
    assert str(place) in done.stderr
    assert [path.name for path in place.iterdir()] == ["x"]


def test_hipify_of_what_is_no_checkout(world):
    world.desk.write("plain/file", "")
    explains(world.desk.run("hipify", "plain", code=USAGE), "plain")
    world.desk.run("hipify", "absent", code=USAGE)


def test_windows_plan_refuses_paths_that_are_too_long(world):
    """Before a file is written; the plan is made and tested on Linux."""
    deep = "/".join(["a_directory_with_a_long_name"] * 7)
    commit(world.family.torch, {f"{deep}/source.cu": "cuda\n"})
    place = world.desk.place / "a/place/that/is/no/short/one/at/all/but/deep/below"
    done = world.desk.checkout("--platform", "windows", "--directory", place, code=USAGE)
    explains(done, "source")
    assert not list(place.rglob("*.cu"))
    world.desk.checkout("--directory", place)


# Interruptions.


@contextmanager
def started(desk: Desk, *argv: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process group of its own, which is gone when the block ends."""
    process = subprocess.Popen(
        desk.command(*argv),
        cwd=desk.place,
        env=desk.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for something that a running command brings about."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "never happened"
        assert process.poll() is None, f"the command ended before, with {process.returncode}"
        time.sleep(0.002)


def clean_run(desk: Desk, *more: str) -> dict[str, tuple[str, ...]]:
    """What an undisturbed checkout elsewhere looks like."""
    desk.checkout("--directory", "undisturbed", "--no-mirror", *more)
    return facts(desk, "undisturbed/pytorch")


ASK = ("checkout", "torch", "--repo-hashtag", "main", "--gitrepo-origin")


@pytest.mark.parametrize("mirror", [(), ("--no-mirror",)], ids=["mirror", "no mirror"])
def test_killed_while_fetching(world, mirror):
    desk = world.desk
    expected = clean_run(desk)
    world.server.faults.latency_s = 0.2
    for requests in (2, 4, 7):
        world.server.forget()
        with started(desk, *ASK, desk.urls["torch"], *mirror) as process:
            until(lambda wanted=requests: world.server.count() >= wanted, process)
    world.server.faults.latency_s = 0
    desk.checkout(*mirror)
    assert facts(desk) == expected


def test_killed_in_the_middle_of_a_pack(world):
    desk = world.desk
    expected = clean_run(desk)
    world.server.faults.how, world.server.faults.first = "stall", 1
    with started(desk, *ASK, desk.urls["torch"]) as process:
        until(lambda: world.server.faults.first == 0, process)
        time.sleep(0.1)
    desk.checkout()
    assert facts(desk) == expected


def test_killed_alone_while_its_git_goes_on(world):
    """Only the command is killed; the git that it started may still wait for its server."""
    desk = world.desk
    expected = clean_run(desk)
    world.server.faults.how, world.server.faults.first = "stall", 1
    with started(desk, *ASK, desk.urls["torch"]) as process:
        until(lambda: world.server.faults.first == 0, process)
        time.sleep(0.1)
        process.kill()
        process.wait()
        again = desk.checkout(code=(0, REFUSED))
        if again.returncode:
            assert "another run" in again.stderr
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    desk.checkout()
    assert facts(desk) == expected


def test_killed_while_moving_to_another_commit(world):
    desk = world.desk
    desk.checkout()
    for number in range(300):
        (world.family.torch / f"many/{number}.cu").parent.mkdir(exist_ok=True)
        (world.family.torch / f"many/{number}.cu").write_text(f"cuda {number}\n")
    world.family.version_2()
    expected = clean_run(desk)
    sights = [
        lambda: (desk.place / "pytorch/many/7.cu").exists(),
        lambda: (desk.place / "pytorch/c.cu").exists(),
        lambda: (desk.place / "pytorch/hip/c.hip").exists(),
    ]
    for sight in sights:
        with started(desk, *ASK, desk.urls["torch"]) as process:
            deadline = time.monotonic() + 30
            while not sight() and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.0005)
    desk.checkout()
    assert facts(desk) == expected
    assert listing(desk.place / "pytorch") == listing(desk.place / "undisturbed/pytorch")


def side_by_side(desk: Desk, *commands: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """Commands that run at the same time."""

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            desk.command(*words), cwd=desk.place, env=desk.env(), text=True, capture_output=True
        )

    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(run, commands))


def test_two_runs_at_once_for_one_directory(world):
    """One does the work; the other waits or is refused, and says so. Nothing is torn."""
    desk = world.desk
    world.server.faults.latency_s = 0.1
    ends = []
    for done in side_by_side(desk, [*ASK, desk.urls["torch"]], [*ASK, desk.urls["torch"]]):
        judged(done, done.returncode)
        ends.append(done.returncode)
        if done.returncode:
            assert "another run" in done.stderr
    assert 0 in ends
    assert facts(desk) == clean_run(desk)


def test_two_runs_at_once_share_one_mirror(world):
    desk = world.desk
    world.server.faults.latency_s = 0.1
    for done in side_by_side(
        desk, *([*ASK, desk.urls["torch"], "--directory", name] for name in ("one", "two"))
    ):
        judged(done, 0)
    packs = [record for record in world.server.of("torch") if record.target.endswith("upload-pack")]
    assert sum(record.sent > 500 for record in packs) == 1, "the pack came once"
    assert facts(desk, "one/pytorch") == facts(desk, "two/pytorch")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_full_disk_is_said_and_the_next_run_goes_on(world, tmp_path):
    """A disk of 1 MB; the checkout wants several."""
    desk = world.desk
    data = "".join(f"{number * 2654435761 % 2**32:08x}\n" for number in range(300_000))
    commit(world.family.torch, {"large.txt": data})
    disk = desk.place / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", str(disk)], capture_output=True
    )
    if made.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        done = desk.checkout("--directory", disk, code=NO_SPACE)
        explains(done, str(disk))
        remounted = ["mount", "-o", "remount,size=64m", str(disk)]
        subprocess.run(remounted, check=True)
        desk.checkout("--directory", disk)
        assert (disk / "pytorch/large.txt").read_text() == data
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        shutil.rmtree(disk)
