"""The commands that change a channel, killed by SIGKILL at random moments and run again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from real.store.history_builds import history_channels, write_wheels
from real.store.history_checks import PROJECTS, WISHES, links, pick
from real.store.history_store import START, World
from rocwright.model.sets import BUILD, FINDINGS, about_set, new_set, set_id
from rocwright.store.channel_log import read_log
from rocwright.store.gate import policy_for
from rocwright.store.index.listed import listed_files
from rocwright.store.index.pages import view_pages
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.publish import view_sets
from rocwright.store.sets.find import current_of
from rocwright.store.sets.records import save_statement
from rocwright.store.sets.stage import stage_set
from rocwright.store.statements import SuiteResult, result_statement

PREFIX = "v2/gfx94X-dcgpu/"


def staged(store: LocalStore, folder: Path, number: int) -> str:
    """A set in staging that passed all its tests."""
    channels = history_channels()
    paths = write_wheels(folder, "gfx94X-dcgpu", number)
    manifest = new_set(
        family="gfx94X-dcgpu", targets=["gfx942"], platform="linux", files=describe_files(paths), sources={}
    )
    names = [entry.name for entry in manifest.files]
    said = [
        about_set(manifest, FINDINGS, {"passed": True, "files": names}),
        about_set(manifest, BUILD, {"result": "success"}),
    ]
    stage_set(store, channels.named("staging"), manifest, paths, said, START)
    for one in policy_for(manifest, channels, channels.named("release"), START.date()).required:
        result = SuiteResult(one.suite, one.family, target=one.target, runner=True, result="passed")
        save_statement(store, set_id(manifest), result_statement(manifest, result))
    return set_id(manifest)


def start(store: LocalStore, *words: str) -> subprocess.Popen[bytes]:
    command = [Path(sys.executable).with_name("rocwright"), "set", *words, "--store", store.root]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def end(store: LocalStore, *words: str) -> None:
    """Run a command to its end, two minutes after the last one was killed."""
    for one in store.list("_leases/"):
        # As its age would have it: nobody renews it any more.
        store.delete(one.key)
    process = start(store, *words)
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()


def seconds(store: LocalStore, *words: str) -> float:
    """What a command takes. A single look may meet a busy moment, and kills would come when all is over."""
    began = time.monotonic()
    end(store, *words)
    return time.monotonic() - began


def look(store: LocalStore) -> None:
    """What is served holds a whole set, whatever was killed."""
    world = World(store, 1)
    world.modified = {one.key: 0.0 for one in store.list("")}
    keys = {project: f"{PREFIX}{project}/index.html" for project in PROJECTS}
    pages = {project: store.read(key) for project, key in keys.items() if key in world.modified}
    for page in pages.values():
        assert all(link.key in world.modified for link in links(page))
    for wish in WISHES:
        for pip in (True, False):
            chosen = pick(wish, pages, world, pip=pip)
            assert chosen is not None
            assert len({link.version for link in chosen.values()}) == 1


def at_rest(store: LocalStore) -> None:
    """The pages are those of the log."""
    log = read_log(store, PREFIX)
    wanted = view_pages(listed_files(view_sets(store, log.state), where=PREFIX), PREFIX)
    served = {one.key: store.read(one.key) for one in store.list(PREFIX) if "/_log/" not in one.key}
    assert served == dict(wanted)
    assert log.finished


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGKILL")
def test_commands_killed_at_random_moments_are_completed_by_the_next(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    sets = [staged(store, tmp_path, number) for number in range(1, 7)]
    end(store, "promote", sets[0], "--to", "release")
    chance = random.Random(4)
    whole = min(seconds(store, "repair", "release") for _ in range(3))
    killed = 0
    promoted = sets[:1]
    for one in sets[1:]:
        for words in (
            ("promote", one, "--to", "release"),
            ("rollback", "release", "--to", promoted[-1], "--reason", "probe", "--no-wait"),
            ("rollback", "release", "--to", one, "--reason", "probe", "--no-wait"),
            ("gc", "--delete"),
        ):
            for _ in range(2):
                process = start(store, *words)
                time.sleep(chance.uniform(0.4, 1.1) * whole)
                process.send_signal(signal.SIGKILL)
                killed += process.wait() == -signal.SIGKILL
                process.stderr.close()
                look(store)
                for lease in store.list("_leases/"):
                    store.delete(lease.key)
            end(store, *words)
            look(store)
            at_rest(store)
        promoted.append(one)
        assert current_of(store, read_log(store, PREFIX).state) == one
    # Some ended before they could be killed.
    assert killed >= 10
