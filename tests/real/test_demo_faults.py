"""Bad input and interruptions on the real thing: each a named error with its exit code, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest


def start(newcomer, cache: Path, work: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        newcomer.command(
            newcomer.clone / ".venv/bin/rocwright", "demo", "--json", "--work-dir", work, "--cache-dir", cache
        ),
        cwd=newcomer.clone,
        env=newcomer.env(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def interrupt_in(step: str, how: signal.Signals, newcomer, cache: Path, work: Path) -> int:
    """Run the demo and send `how` as soon as it says that `step` started; returns its exit status."""
    with start(newcomer, cache, work) as child:
        assert child.stderr is not None
        seen = []
        for line in child.stderr:
            seen.append(line)
            if line.split() == ["start", step]:
                child.send_signal(how)
                break
        else:
            pytest.fail(f"{step} never started:\n{''.join(seen[-30:])}")
        # What the stream had read ahead is lost to communicate().
        rest = child.stderr.read()
    if how != signal.SIGKILL:
        assert "Traceback" not in rest
        assert "Interrupted" in rest
        assert "finished steps are kept" in rest
    return child.returncode


def test_interrupted_again_and_again_it_ends_with_the_same_set(demo, newcomer, cache):
    """Killed or stopped in every kind of step, the run resumes and makes bit for bit the same release."""
    work = newcomer.home / "interrupted"
    assert interrupt_in("rocm-prefix", signal.SIGINT, newcomer, cache, work) == 130
    assert interrupt_in("rocm-prefix", signal.SIGKILL, newcomer, cache, work) == -signal.SIGKILL
    assert interrupt_in("rocm-packages", signal.SIGTERM, newcomer, cache, work) == 130
    assert interrupt_in("build-env", signal.SIGKILL, newcomer, cache, work) == -signal.SIGKILL
    assert interrupt_in("build-torch", signal.SIGINT, newcomer, cache, work) == 130
    assert interrupt_in("build-torchaudio", signal.SIGKILL, newcomer, cache, work) == -signal.SIGKILL
    assert interrupt_in("check", signal.SIGINT, newcomer, cache, work) == 130
    assert interrupt_in("test-pip", signal.SIGINT, newcomer, cache, work) == 130
    assert interrupt_in("stage", signal.SIGKILL, newcomer, cache, work) == -signal.SIGKILL
    with start(newcomer, cache, work) as child:
        out, err = child.communicate()
    assert child.returncode == 0, err[-3000:]
    steps = {row["id"]: row for row in json.loads(out)["steps"]}
    # Finished steps were kept ...
    assert steps["rocm-packages"]["state"] == "cached"
    # ... and nothing half-written was taken for whole.
    ours = {file["name"]: file["sha256"] for file in steps["rocm-packages"]["value"]["files"]}
    theirs = {file["name"]: file["sha256"] for file in demo.value("rocm-packages")["files"]}
    assert ours == theirs
    for project in ("torch", "torchaudio", "torchvision", "triton", "apex"):
        assert steps[f"build-{project}"]["value"]["sha256"] == demo.value(f"build-{project}")["sha256"]
    assert steps["promote"]["value"]["decision"]["promote"] is True
    assert not list(work.rglob("*.partial"))
    shutil.rmtree(work)


def test_a_changed_package_in_the_cache_is_named(demo, newcomer, cache):
    package = next((cache / "packages").rglob("rocm-cmake_*.deb"))
    kept = package.read_bytes()
    try:
        package.write_bytes(kept[:-1] + b"?")
        done = newcomer.rocwright(
            "demo", "--work-dir", newcomer.home / "tampered", "--cache-dir", cache, ok=False
        )
    finally:
        package.write_bytes(kept)
    assert done.returncode == 6
    assert package.name in done.stderr
    assert "IntegrityError" in done.stderr
    assert "Traceback" not in done.stderr


def farm(place: Path, *, without: set[str]) -> Path:
    """A directory of links to the programs of this machine, save some: a PATH that lacks them."""
    place.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = place / program.name
            if program.name not in without and not link.exists():
                link.symlink_to(program)
    place.chmod(0o755)
    return place


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ({"apt-get"}, "--rocm-prefix"),
        ({"g++"}, "install g++"),
        ({"cc", "gcc", "git"}, "install git gcc"),
    ],
    ids=["no-apt", "no-compiler", "no-git-no-gcc"],
)
def test_a_missing_program_is_named_before_any_work(newcomer, missing, said):
    path = farm(newcomer.home / f"bin-without-{'-'.join(sorted(missing))}", without=missing)
    work = newcomer.home / "never"
    done = newcomer.rocwright("demo", "--work-dir", work, ok=False, PATH=str(path))
    assert done.returncode == 4
    assert "MissingTool" in done.stderr
    assert said in done.stderr
    assert not work.exists()


def test_a_prefix_that_is_no_rocm(newcomer):
    empty = newcomer.home / "empty"
    empty.mkdir(exist_ok=True)
    newcomer.own(empty)
    done = newcomer.rocwright(
        "demo", "--work-dir", newcomer.home / "work-empty", "--rocm-prefix", empty, ok=False
    )
    assert done.returncode == 3
    assert "InvalidPrefix" in done.stderr
    assert "is not a ROCm" in done.stderr


def test_a_prefix_of_no_known_family_needs_a_name_and_works_with_one(demo, newcomer):
    prefix, dest = demo.work / "rocm", newcomer.home / "imported"
    refused = newcomer.rocwright("sdk", "import", prefix, "--dest-dir", dest, ok=False)
    assert refused.returncode == 2
    assert "gfx803 gfx900 gfx906 gfx908 gfx90a gfx1030" in refused.stderr
    assert "--family" in refused.stderr
    done = newcomer.rocwright("sdk", "import", prefix, "--dest-dir", dest, "--family", "Museum_X", "--json")
    names = [file["name"] for file in json.loads(done.stdout)["files"]]
    assert "rocm_sdk_libraries_museum_x-5.2.3-py3-none-linux_x86_64.whl" in names
    # The rest does not depend on the family's name.
    core = next(file for file in json.loads(done.stdout)["files"] if "core" in file["name"])
    assert core["sha256"] == demo.value("rocm-packages")["files"][0]["sha256"]
    shutil.rmtree(dest)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_disk_that_fills_up(demo, newcomer, tmp_path):
    """The file system is large enough for what is asked beforehand, then something else fills it."""
    small = newcomer.home / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=500m,mode=777", "tmpfs", str(small)], check=True)
    try:
        refused = newcomer.rocwright(
            "sdk", "import", demo.work / "rocm", "--dest-dir", small / "a", "--family", "x", ok=False
        )
        assert refused.returncode == 8
        assert "NoSpace" in refused.stderr
        assert not (small / "a").exists()
        # 660 MB are asked for, 459 MB are written: leave room for the question, not for the answer.
        subprocess.run(["mount", "-o", "remount,size=900m", str(small)], check=True)
        command = newcomer.command(
            newcomer.clone / ".venv/bin/rocwright", "sdk", "import", demo.work / "rocm"
        )
        command += ["--dest-dir", str(small / "b"), "--family", "x"]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command, env=newcomer.env(), text=True, stderr=subprocess.PIPE, stdout=quiet
        ) as child:
            assert child.stderr is not None
            for line in child.stderr:
                if "wrote rocm_sdk_core" in line:
                    free = shutil.disk_usage(small).free
                    with (small / "hog").open("wb") as hog:
                        os.posix_fallocate(hog.fileno(), 0, max(0, free - 50_000_000))
                    break
            err = child.stderr.read()
        assert child.returncode == 8, err
        assert "NoSpace" in err
        assert "Traceback" not in err
        left = sorted(path.name for path in (small / "b").iterdir())
        # The wheel that was whole is kept, the one that was not is gone.
        assert left == ["rocm_sdk_core-5.2.3-py3-none-linux_x86_64.whl"]
    finally:
        subprocess.run(["umount", str(small)], check=True)
