"""What real clients make of a set: pip and uv install it into fresh environments, Python uses it there.

Nothing here knows a rule of rocwright: a set is good where it does all that the good set does.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROBE = Path(__file__).with_name("probe.py")
# What installers write for themselves, and what Python compiles.
_OWN = (
    "INSTALLER",
    "RECORD",
    "REQUESTED",
    "direct_url.json",
    "uv_cache.json",
    "uv_build.json",
    ".lock",
    ".pyc",
)
# Files above this many bytes are known by their inode, where it is that of a good one.
_SMALL = 1 << 20
_LIMIT_S = 240


@dataclass(frozen=True)
class Verdict:
    """What differs from the good set: `breaks` no longer works, `harms` is what a client suffers unasked."""

    breaks: tuple[str, ...] = ()
    harms: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """`breaks`, `harms` or `silent`."""
        return "breaks" if self.breaks else "harms" if self.harms else "silent"


@dataclass
class World:
    """Environments below `work`, in which the good set shows first what a set of its kind can do.

    `broken` is a set that everybody must find broken: the control, as the good set is. `heavy` are projects
    whose good files take long to unpack: where they are unchanged, uv brings them before pip is asked for the
    rest.

    Both installers know a file of a folder by its path, whatever it holds. So each good file lies in a folder
    of its own, the files of a sample in one that was never there before, and of what uv unpacked of the good
    ones each sample has a copy (of links) that is thrown away.
    """

    good: dict[str, Path]
    work: Path
    wanted: tuple[str, ...]
    broken: Mapping[str, Path]
    heavy: tuple[str, ...] = ()
    python: str = sys.executable
    baseline: dict[str, Any] = field(default_factory=dict)
    stamps: dict[int, tuple[int, int]] = field(default_factory=dict)
    looks: int = 0

    def __post_init__(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        self.uv = Path(sys.executable).with_name("uv")
        self.begin()

    def begin(self) -> None:
        """See what the good set does, from empty caches, and does again after one that is broken."""
        self.kept, self.cache = self.work / "uv-good", self.work / "uv-cache"
        shutil.rmtree(self.kept, ignore_errors=True)
        self.kept.mkdir()
        self.baseline, self.stamps = {}, {}
        self.baseline = self.look(self.good, both=True)
        failed = {who: seen["install"] for who, seen in self.baseline.items() if seen["install"]}
        assert not failed, f"the good set cannot be installed: {failed}"
        shutil.rmtree(self.kept)
        shutil.copytree(self.cache, self.kept, symlinks=True)
        self.stamps = _stamps(self.kept)
        whose = {text.partition(":")[0] for text in self.judge(self.broken, both=True).breaks}
        assert whose == {"pip", "uv"}, f"a set that is broken on purpose works with {whose}"
        again = self.judge(self.good)
        assert again == Verdict(), f"the good set is no more what it was: {again}"

    def judge(self, paths: Mapping[str, Path], *, both: bool = False) -> Verdict:
        """Install these files, compare with the good set; pip is asked where uv is content, or for `both`."""
        seen = self.look(paths, both)
        if _stamps(self.kept) != self.stamps:
            # A program of the sample wrote in place into installed files, which are those kept.
            self.begin()
        breaks = [f"{who}: {text}" for who in seen for text in _broken(self.baseline[who], seen[who], paths)]
        harms = [f"{who}: {text}" for who in seen for text in _harmed(self.baseline[who], seen[who])]
        if not breaks:
            harms += _differences(seen["pip"]["files"], seen["uv"]["files"])
        return Verdict(tuple(breaks), tuple(harms))

    def look(self, paths: Mapping[str, Path], both: bool) -> dict[str, Any]:
        """What uv does with these files and, where all is well or for `both`, what pip does."""
        self.looks += 1
        fresh, folders = {}, []
        for name, path in paths.items():
            if path == self.good.get(name):
                folders.append(self.work / "good" / name)
                lay_out({name: path}, folders[-1])
            else:
                fresh[name] = path
        folders.append(self.work / f"sample-{self.looks}")
        lay_out(fresh, folders[-1])
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.kept, self.cache, symlinks=True, copy_function=os.link)
        seen = {"uv": self._with("uv", folders, paths, None)}
        if both or not any(_broken(self.baseline["uv"], seen["uv"], paths)):
            seen["pip"] = self._with("pip", folders, paths, seen["uv"])
        shutil.rmtree(folders[-1])
        return seen

    def _with(
        self, who: str, folders: Sequence[Path], paths: Mapping[str, Path], other: dict[str, Any] | None
    ) -> dict[str, Any]:
        root, home = self.work / "env", self.work / "home"
        for place in (root, home):
            shutil.rmtree(place, ignore_errors=True)
        home.mkdir()
        self._run(self.uv, "venv", "--quiet", "--no-config", "--python", self.python, root)
        offline = ["--no-index", *(word for folder in folders for word in ("--find-links", str(folder)))]
        into = ["--no-config", "--quiet", "--python", str(root / "bin/python"), *offline]
        if who == "uv":
            done = self._run(self.uv, "pip", "install", *into, *self.wanted)
        else:
            stems = Counter(path.name.partition("-")[0] for path in paths.values())
            same = [
                name
                for name in self.heavy
                if paths.get(name) == self.good[name] and stems[self.good[name].name.partition("-")[0]] == 1
            ]
            if same:
                self._run(self.uv, "pip", "install", "--no-deps", *into, *same)
            words = ["install", "--quiet", "--isolated", "--disable-pip-version-check", *offline]
            done = self._run(
                self.python, "-m", "pip", "--python", str(root / "bin/python"), *words, *self.wanted
            )
        seen: dict[str, Any] = {"install": "" if done.returncode == 0 else done.stderr[-1500:] or "failed"}
        seen["files"] = dict(self._files(root)) if done.returncode == 0 else {}
        if other and seen["files"] and self._alike(seen["files"], other["files"]):
            return {**seen, "use": other["use"], "left": other["left"]}
        seen["use"] = self._use(root, home) if done.returncode == 0 else {}
        seen["left"] = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
        return seen

    def _alike(self, pip: dict[str, str], uv: dict[str, str]) -> bool:
        """Whether the files are the same, and the scripts as each installer writes those of the good set."""
        if not self.baseline:
            return False
        scripts = all(
            seen.get(place) == digest
            for who, seen in (("pip", pip), ("uv", uv))
            for place, digest in self.baseline[who]["files"].items()
            if place.startswith("bin/")
        )
        return scripts and _elsewhere(pip) == _elsewhere(uv)

    def _files(self, root: Path) -> Iterator[tuple[str, str]]:
        """What lies in an environment, with a digest."""
        for here, _, names in os.walk(root):
            for name in names:
                path = Path(here, name)
                if name.endswith(_OWN) or not path.is_file():
                    continue
                about = path.stat()
                if about.st_size > _SMALL and about.st_ino in self.stamps:
                    digest = f"that of {about.st_ino}"
                else:
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                yield path.relative_to(root).as_posix(), digest

    def _use(self, root: Path, home: Path) -> dict[str, Any]:
        result = self.work / "probe.json"
        result.unlink(missing_ok=True)
        known = self.baseline["uv"]["use"]["imports"] if self.baseline else ()
        done = self._run(root / "bin/python", PROBE, result, *known, home=home, LD_BIND_NOW="1")
        if not result.exists():
            return {"end": f"exit status {done.returncode}: {done.stderr[-600:]}"}
        seen: dict[str, Any] = json.loads(result.read_text())
        check = self._run(self.uv, "pip", "check", "--quiet", "--no-config", "--python", root / "bin/python")
        seen["pip check"] = "" if check.returncode == 0 else check.stderr[-600:]
        for name in ("version", "path", "targets"):
            script = self._run(root / "bin/rocm-sdk", *([name] if name != "path" else ["path", "--bin"]))
            seen[f"rocm-sdk {name}"] = script.returncode
        return seen

    def _run(
        self, *words: str | Path, home: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home or self.work), "LC_ALL": "C.UTF-8", **more}
        env["UV_CACHE_DIR"] = str(self.cache)
        argv = [str(word) for word in words]
        try:
            return subprocess.run(
                argv,
                env=env,
                cwd=self.work,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", f"nothing after {_LIMIT_S} seconds")
        except OSError as error:
            return subprocess.CompletedProcess(argv, 127, "", str(error))


def lay_out(paths: Mapping[str, Path], folder: Path) -> None:
    """Links to these files, in a folder of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in paths.values():
        (folder / path.name).symlink_to(path)


def _stamps(root: Path) -> dict[int, tuple[int, int]]:
    """Sizes and times of the files of a tree, by inode."""
    files = (path.stat() for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {about.st_ino: (about.st_size, about.st_mtime_ns) for about in files}


def _elsewhere(files: Mapping[str, str]) -> dict[str, str]:
    """All but scripts."""
    return {place: digest for place, digest in files.items() if not place.startswith("bin/")}


def _broken(good: dict[str, Any], seen: dict[str, Any], paths: Mapping[str, Path]) -> Iterator[str]:
    """What works no more with these files; another version than before is no fault where a file names it."""
    if seen["install"]:
        yield f"it does not install: {seen['install'].strip().splitlines()[-1][:300]}"
        return
    if "end" in seen["use"]:
        yield f"the interpreter ends: {seen['use']['end'][:300]}"
        return
    for kind in ("imports", "libraries", "versions", "stdlib"):
        for name, value in good["use"][kind].items():
            now = seen["use"][kind].get(name, "not there")
            if now == value or (kind == "versions" and name in paths and f"-{now}" in paths[name].name):
                continue
            if _failure(value) is not None and _failure(value) == _failure(now):
                # It never worked alone; another message does not break it.
                continue
            yield f"{kind} {name}: {str(now)[:200]}"
    for name in ("pip check", "rocm-sdk version", "rocm-sdk path", "rocm-sdk targets"):
        if seen["use"][name] != good["use"][name]:
            yield f"{name}: {str(seen['use'][name])[:200]}"


def _failure(said: Any) -> str | None:
    """The kind of error that was said, if it was one."""
    kind, mark, _ = str(said).partition(": ")
    return kind if mark and kind.endswith("Error") else None


def _harmed(good: dict[str, Any], seen: dict[str, Any]) -> Iterator[str]:
    if seen["left"] != good["left"]:
        yield f"files in the user's home: {seen['left'][:3]}"
    for kind in ("started", "path"):
        more = [name for name in seen["use"].get(kind, []) if name not in good["use"][kind]]
        if more:
            yield f"at the start of every interpreter, {kind}: {more[:3]}"
    for place, digest in good["files"].items():
        outside = not place.startswith("lib/")
        if outside and seen["files"] and seen["files"].get(place) != digest:
            yield f"{place} was replaced"
    new = [place for place in seen["files"] if place not in good["files"] and "site-packages/" not in place]
    if new:
        yield f"files outside of site-packages: {new[:3]}"


def _differences(pip: dict[str, str], uv: dict[str, str]) -> list[str]:
    """Where the two installers left other files; scripts are written by each in its own way."""
    pip, uv = _elsewhere(pip), _elsewhere(uv)
    places = sorted(pip.keys() | uv.keys())
    found = [place for place in places if pip.get(place) != uv.get(place) and "-info/" not in place]
    return [f"pip and uv installed different files: {found[:3]}"] if found else []
