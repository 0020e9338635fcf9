"""The whole way with an index that another tool made: dumb-pypi's pages behind `python -m http.server`.

Adopt, stage, release, lock, adopt a second set, take it back, find out which one broke it. After the first
command only what the command before printed is typed; what people have to fill in is WHY, COMMAND and a date.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from oracle.fat_library import code_object
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import serving
from rocwright.store.sets.records import read_set
from rocwright.system.venv import uv_command
from wheels import write_wheel

pytestmark = pytest.mark.slow

GOOD, BAD = "1.0+rocm7.12.0a20260429", "1.0+rocm7.12.0a20260430"
# EF_AMDGPU_MACH of two targets.
MACHS = {"gfx942": 0x4C, "gfx1100": 0x41}
NEXT = re.compile(r"^(?:next[^:]*:|  next:|       ) (rocwright .*?)(?:   # if (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def next(self) -> list[str]:
        """The commands that it names, without what must be so before."""
        return [command for command, _ in NEXT.findall(self.err)]


@dataclass
class Desk:
    """A directory to work in, an index, and what its server wrote down."""

    here: Path
    url: str
    log: Path

    def type(self, command: str, **filled: str) -> Ended:
        """Type a command as it was printed, with the words that are to be filled in."""
        words = [filled.get(word, word) for word in shlex.split(command)]
        assert words[0] == "rocwright"
        argv = [sys.executable, "-m", "rocwright", *words[1:]]
        more = {"XDG_CACHE_HOME": str(self.here / "cache"), "COLUMNS": "200"}
        done = subprocess.run(
            argv, cwd=self.here, env={**os.environ, **more}, capture_output=True, text=True, timeout=120
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def bodies(self) -> Counter[str]:
        """How often the content of each file was asked for."""
        asked = re.findall(r'"GET (\S+\.whl) ', self.log.read_text())
        return Counter(unquote(path).rpartition("/")[2] for path in asked)


def night(folder: Path, version: str, answer: int, rpath: Path) -> None:
    """One build: a package with device code and a library that has an absolute RUNPATH, and a helper."""
    library = rpath / "libmylib.so"
    if not library.exists():
        command = ["gcc", "-shared", "-nostdlib", "-Wl,-rpath,/opt/rocm/lib", "-x", "c", os.devnull]
        subprocess.run([*command, "-o", library], check=True)
    files: dict[str, str | bytes] = {
        "mylib/__init__.py": f"answer = {answer}\n",
        "mylib/libmylib.so": library.read_bytes(),
        **{f"mylib/kernels_{name}.co": code_object(mach, bytes(64)) for name, mach in MACHS.items()},
    }
    tag = "py3-none-linux_x86_64"
    write_wheel(folder, "mylib", version, files, requires=[f"helper=={version}"], tag=tag)
    write_wheel(folder, "helper", version, {"helper/__init__.py": ""}, tag="py3-none-any")


def pages(www: Path, folder: Path, *more: str) -> None:
    """The index as dumb-pypi makes it, of nothing but the names."""
    names = www / "names.txt"
    names.write_text("".join(f"{path.name}\n" for path in sorted(folder.iterdir())))
    command = [sys.executable, "-m", "dumb_pypi.main", "--package-list", names]
    command += ["--packages-url", "../../files/", "--output-dir", www, *more]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    www, here = tmp_path / "www", tmp_path / "here"
    here.mkdir()
    # Nobody goes on with a page for long, so a rollback need not wait.
    (here / "rocwright.toml").write_text("[channels]\nmax_age = 1\n")
    night(www / "files", GOOD, 42, tmp_path)
    pages(www, www / "files")
    log = tmp_path / "server.log"
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", www]
    with log.open("wb") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    try:
        found = None
        while found is None and server.poll() is None:
            time.sleep(0.05)
            found = re.search(r"port (\d+)", log.read_text())
        assert found is not None
        yield Desk(here, f"http://127.0.0.1:{found[1]}/simple/", log)
    finally:
        server.terminate()
        server.wait()


def pip_installs(index: str, target: Path) -> Mapping[str, str]:
    """What real pip takes from an index and nothing else."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-cache-dir",
        "--isolated",
        "--target",
        str(target),
    ]
    done = subprocess.run([*pip, "--index-url", index, "mylib"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = (path.name.removesuffix(".dist-info") for path in target.glob("*.dist-info"))
    return dict(name.split("-") for name in sorted(names))


def test_from_an_index_to_a_release_and_back(desk: Desk, tmp_path: Path) -> None:
    store = LocalStore(desk.here / "store")
    adopted = desk.type(f"rocwright set create --from-index {desk.url} --project mylib --no-install")
    assert adopted.code == 0, adopted.err
    good = adopted.out.strip()
    # Targets are those that the wheels hold code for; the check says what it found, and lets it pass.
    manifest = read_set(store, good)
    assert (manifest.targets, manifest.family) == (("gfx1100", "gfx942"), "multi-arch")
    assert "warning [elf-absolute-path]" in adopted.err
    assert "files: 0 errors" in adopted.err

    [stage] = adopted.next
    staged = desk.type(stage)
    assert staged.code == 0, staged.err
    assert set(desk.bodies().values()) == {1}
    assert len(desk.bodies()) == 2

    release = staged.next[0]
    closed = desk.type(release)
    assert closed.code == 10
    bypasses = [line for line in closed.next if "--bypass" in line]
    # One for each suite, whatever its targets.
    assert len(bypasses) == 3
    for line in bypasses:
        assert desk.type(line, WHY="nothing to test with").code == 0
    released = desk.type(release)
    assert released.code == 0, released.err

    # There is nothing yet to go back to.
    [lock] = released.next
    assert "--target gfx942" in lock
    locked = desk.type(lock)
    assert locked.code == 0, locked.err
    (desk.here / "pylock.mine.toml").write_text(locked.out)
    uv = [uv_command(), "pip", "install", "-q", "--target", tmp_path / "locked", "-r", "pylock.mine.toml"]
    subprocess.run([*uv, "--python", sys.executable, "--no-cache"], cwd=desk.here, check=True)
    assert (tmp_path / "locked/mylib/__init__.py").read_text() == "answer = 42\n"
    with serving(store) as url:
        assert pip_installs(f"{url}v2/multi-arch/", tmp_path / "one") == {"helper": GOOD, "mylib": GOOD}

    www = tmp_path / "www"
    night(www / "files", BAD, 41, tmp_path)
    pages(www, www / "files")
    second = desk.type(f"rocwright set create --from-index {desk.url} --project mylib --stage --no-install")
    assert second.code == 0, second.err
    bad = second.out.strip()
    # Each file of both sets once, and none of the first one again.
    assert sorted(desk.bodies().values()) == [1, 1, 1, 1]
    with serving(store) as url:
        assert pip_installs(f"{url}v2-staging/multi-arch/", tmp_path / "two") == {"helper": BAD, "mylib": BAD}
    assert desk.type("rocwright set show newest").out.split()[1] == bad

    back = next(line for line in second.next if " rollback " in line)
    taken = desk.type(back, WHY="the answer is wrong")
    assert taken.code == 0, taken.err
    with serving(store) as url:
        assert pip_installs(f"{url}v2-staging/multi-arch/", tmp_path / "three") == {
            "helper": GOOD,
            "mylib": GOOD,
        }
    assert desk.type("rocwright set show newest").out.split()[1] == good

    [search] = taken.next
    check = "import mylib; assert mylib.answer == 42"
    found = desk.type(search.replace("COMMAND", shlex.join(["python", "-c", check])))
    assert found.code == 0, found.err
    assert f"first bad  {bad}" in found.out
    assert f"last good  {good}" in found.out
    assert sorted(desk.bodies().values()) == [1, 1, 1, 1]
