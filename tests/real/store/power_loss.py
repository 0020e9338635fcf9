"""Cut the power of publishers on a real file system, and look at what is left; by root, on Linux.

``python -m real.store.power_loss --moments 200`` makes a file system in a file, publishes sets on it one
after the other, copies the file at random moments while it is mounted, mounts each copy, so that its journal
is replayed, and asks the commands for what was acknowledged. The last line counts the moments with a
violation.

The publisher is stopped for a copy, and a copy during which the file system wrote anything is thrown away:
what is left is what a disk without a cache of its own holds when the power goes. Nothing is frozen or synced
for it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from command_line import PROGRAM, status
from real.store.power_checks import make_wheels, publish, set_in, violations

# The least that mkfs.xfs takes is 300 MB; what is empty is not copied.
SIZE = 320 << 20
# After so many sets another store is begun, so that commands have little to look through.
SETS = 8
# Of the sets acknowledged so far, the last are looked at: what is older was written back long ago.
LOOKED_AT = 3


def command(*words: object) -> tuple[int, str]:
    """A command in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = status(*words)
    return code, out.getvalue()


@contextlib.contextmanager
def mounted(image: Path, place: Path, options: str = "loop") -> Iterator[str]:
    """The file system in a file at a place; yields the name of its loop device."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", options, image, place], check=True)
    try:
        found = subprocess.run(["findmnt", "-no", "SOURCE", place], stdout=subprocess.PIPE, text=True)
        yield found.stdout.strip().rpartition("/")[2]
    finally:
        subprocess.run(["umount", place], check=True)


class Publisher(threading.Thread):
    """Publishes set after set, until it is told to end; `acknowledged` are those of the store at work."""

    def __init__(self, disk: Path, wheels: Path, seed: int) -> None:
        super().__init__()
        self.disk, self.wheels, self.random = disk, wheels, random.Random(seed)
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.number, self.store = 0, disk / "store-0"
        self.acknowledged: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Until the end."""
        while not self.ended.is_set():
            if self.number % SETS == 0:
                with self.lock:
                    old, self.store = self.store, self.disk / f"store-{self.number // SETS}"
                    self.acknowledged = []
                if old != self.store:
                    shutil.rmtree(old)
            self.number += 1
            wheels = make_wheels(self.wheels, self.number)[0].parent
            words = list(map(str, [*PROGRAM, *publish(wheels, self.store)]))
            with self.lock:
                self.process = subprocess.Popen(
                    words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            out, err = self.process.communicate()
            assert self.process.returncode == 0, err
            with self.lock:
                self.process = None
                self.acknowledged.append(set_in(out))
            self.ended.wait(self.random.choice((0.0, 0.0, 1.0, 7.0)))

    @contextlib.contextmanager
    def stopped(self) -> Iterator[tuple[Path, list[str]]]:
        """No process of it goes on; yields the store at work and what is acknowledged of it."""
        with self.lock:
            process = self.process
            if process is not None:
                process.send_signal(signal.SIGSTOP)
            try:
                yield self.store, list(self.acknowledged)
            finally:
                if process is not None:
                    process.send_signal(signal.SIGCONT)


def _writes(device: str) -> tuple[str, str]:
    """What the device has written so far, and what is on its way."""
    facts = Path(f"/sys/block/{device}/stat").read_text().split()
    return " ".join(facts[4:7]), Path(f"/sys/block/{device}/inflight").read_text().split()[1]


def copied(image: Path, device: str, target: Path) -> bool:
    """Copy the file under a mounted file system; False when something was written meanwhile."""
    before = _writes(device)
    if before[1] != "0":
        return False
    subprocess.run(["cp", "--sparse=always", image, target], check=True)
    return _writes(device) == before


def trial(work: Path, kind: str, moments: int, seed: int) -> list[list[str]]:
    """What was violated at each of so many moments."""
    chance = random.Random(seed)
    image, copy = work / "image", work / "copy"
    with image.open("wb") as stream:
        stream.truncate(SIZE)
    subprocess.run([f"mkfs.{kind}", "-q", image], check=True)
    found: list[list[str]] = []
    # XFS refuses a second file system of one identity.
    second = "loop,nouuid" if kind == "xfs" else "loop"
    with mounted(image, work / "disk") as device:
        publisher = Publisher(work / "disk", work / "wheels", seed)
        publisher.start()
        try:
            while len(found) < moments and publisher.is_alive():
                time.sleep(chance.uniform(0, 1.0))
                with publisher.stopped() as (store, acknowledged):
                    for _ in range(50):
                        if whole := copied(image, device, copy):
                            break
                if not whole:
                    continue
                with mounted(copy, work / "after", second):
                    left = work / "after" / store.name
                    found.append(violations(command, left, acknowledged[-LOOKED_AT:]))
                if found[-1]:
                    print(f"{len(found):4}  {len(acknowledged)} sets  {found[-1][0]}", flush=True)
        finally:
            publisher.ended.set()
            publisher.join()
    return found


def main() -> int:
    """Run the trial, print, and tell by the exit code whether anything was violated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file-system", default="ext4", help="with mkfs.<name> on the machine")
    options = parser.parse_args()
    if os.geteuid() or sys.platform != "linux" or shutil.which(f"mkfs.{options.file_system}") is None:
        print(f"needs root, Linux and mkfs.{options.file_system}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as work:
        found = trial(Path(work), options.file_system, options.moments, options.seed)
    wrong = sum(map(bool, found))
    print(f"{options.file_system}, seed {options.seed}: {wrong} of {len(found)} moments violated")
    return 0 if not wrong and len(found) == options.moments else 1


if __name__ == "__main__":
    raise SystemExit(main())
