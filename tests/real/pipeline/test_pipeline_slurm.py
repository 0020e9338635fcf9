"""A run on a real Slurm of two nodes: submitted, one node lost in the middle, whole at the end."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from real.pipeline.slurm_cluster import Cluster, missing, processes, until

BIN = Path(sys.executable).parent
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
TABLE = """\
[slurm]
work = "{root}/machine-$SLURMD_NODENAME"
setup = ["export PATH={path}:/usr/local/bin:/usr/bin:/bin", "export ROCWRIGHT_LEASE_S=10"]
"""


@pytest.fixture(scope="module")
def cluster():
    # Not pytest's own temporary directory: munge wants its socket where everybody may come.
    root = Path(tempfile.mkdtemp(prefix="rocwright-slurm-"))
    root.chmod(0o755)
    one = Cluster(root)
    try:
        one.start()
        yield one
    finally:
        one.end()
        shutil.rmtree(root)


def render(cluster: Cluster, root: Path, path: str, *options: str, more: str = ""):
    """With what jobs ask for by default, on this cluster."""
    root.mkdir()
    (root / "rocwright.toml").write_text(TABLE.format(root=root, path=path) + more)
    argv = [
        BIN / "rocwright",
        "pipeline",
        "render",
        "--to",
        "slurm",
        "--output",
        root / "run of mine",
        *options,
    ]
    (root / "run of mine").mkdir()
    argv += ["--config", root / "rocwright.toml"]
    return subprocess.run(
        [str(word) for word in argv], env=cluster.env, text=True, capture_output=True, cwd=root
    )


def rendered(cluster: Cluster, root: Path, path: str, *options: str) -> Path:
    done = render(cluster, root, path, *options)
    assert done.returncode == 0, done.stderr
    return root / "run of mine"


def submit(cluster: Cluster, folder: Path) -> dict[str, str]:
    """Jobs by cell."""
    subprocess.run(["bash", folder / "submit.sh"], env=cluster.env, check=True, capture_output=True)
    rows = [line.split("\t") for line in (folder / "submitted").read_text().splitlines()]
    return {cell: number for number, cell in rows}


def test_scripts_are_clean_for_the_linter(cluster, tmp_path):
    folder = rendered(cluster, tmp_path / "r", str(BIN))
    scripts = ["submit.sh", *(str(path.relative_to(folder)) for path in folder.glob("cells/**/*.sh"))]
    assert len(scripts) > 15
    done = subprocess.run(["shellcheck", *scripts], cwd=folder, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_jobs_ask_for_fits_the_partition_or_nothing_is_written(cluster, tmp_path):
    """Each node has 2 processors and 8000 MB; torch of PyTorch's own sources asks for 64 and 160 GB."""
    upstream = [
        "--sources",
        "upstream",
        "--profile",
        "ci",
        "--platforms",
        "linux",
        "--families",
        "gfx94X-dcgpu",
    ]
    folder = rendered(cluster, tmp_path / "r", str(BIN), *upstream)
    script = min(folder.glob("cells/build-torch/**/*.sh"))
    asked = [line for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert asked[-3:] == ["#SBATCH --cpus-per-task=2", "#SBATCH --mem=7G", "#SBATCH --time=23040"]
    number = cluster.ask("sbatch", "--parsable", "--hold", f"--chdir={folder}", str(script)).strip()
    assert cluster.job(number)["NumCPUs"] == "2"
    cluster.ask("scancel", number)
    wished = '\n[[slurm.request]]\nids = ["build-torch/*"]\ncpus = 64\n'
    done = render(cluster, tmp_path / "s", str(BIN), *upstream, more=wished)
    assert done.returncode == 2
    assert "cpus = 64 (partition main has machines with up to 2)" in done.stderr
    assert not list((tmp_path / "s/run of mine").iterdir())


def test_a_gpu_is_granted_to_what_needs_one(cluster, tmp_path):
    """The step is a stand-in that tells what Slurm gave it."""
    (tmp_path / "bin").mkdir()
    shown = tmp_path / "bin/rocwright"
    shown.write_text('#!/bin/sh\necho "$3 on $SLURMD_NODENAME: ${ROCR_VISIBLE_DEVICES-none}"\n')
    shown.chmod(0o755)
    folder = rendered(cluster, tmp_path / "r", str(tmp_path / "bin"), "--no-pytorch")
    plan = json.loads((folder / "plan.json").read_text())
    wanted = next(cell for cell in plan["cells"] if cell["kind"] == "test-rocm")
    # A family with a runner, as a table of one's own gives it.
    wanted |= {"skip": "", "runner": "cluster"}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    folder = rendered(cluster, tmp_path / "s", str(tmp_path / "bin"), "--plan", str(tmp_path / "plan.json"))
    jobs = submit(cluster, folder)
    until(lambda: not cluster.queue())
    granted = cluster.job(jobs[wanted["id"]])
    assert (granted["JobState"], granted["TresPerNode"]) == ("COMPLETED", "gres:gpu:1")
    node = granted["NodeList"]
    assert (folder / f"logs/{wanted['id']}.log").read_text() == f"{wanted['id']} on {node}: 0\n"
    others = [cell for cell in jobs if cell != wanted["id"]]
    assert len(others) > 3
    for cell in others:
        assert (folder / f"logs/{cell}.log").read_text().endswith(": none\n")
        assert "TresPerNode" not in cluster.job(jobs[cell])


def test_a_run_survives_the_loss_of_a_node(cluster, tmp_path, earlier):
    """torch of the miniature family, from an earlier run's ROCm to a release, over a folder of both nodes."""
    options = ["--run-id", "s1", "--artifact-run-id", "s0", "--projects", "torch"]
    folder = rendered(cluster, tmp_path / "r", str(BIN), *options)
    earlier(folder / "store", "s0")
    jobs = submit(cluster, folder)
    assert "nothing was submitted" in again(cluster, folder), "the first are running"
    torch = next(cell for cell in jobs if cell.startswith("build-torch/"))
    log = folder / f"logs/{torch}.log"
    # The job's log begins before; what is wanted is a compiler at work.
    until(
        lambda: (
            sound(cluster, folder)
            and log.exists()
            and any(compiles(argv, tmp_path) for _, argv in processes())
        ),
        600,
    )
    lost = cluster.job(jobs[torch])["NodeList"]
    cluster.lose(lost, jobs[torch])
    until(lambda: cluster.job(jobs[torch])["JobState"] == "PENDING")
    # Slurm itself waits two minutes before it starts a lost job again.
    cluster.ask("scontrol", "update", f"JobId={jobs[torch]}", "StartTime=now")
    until(lambda: cluster.job(jobs[torch])["JobState"] == "RUNNING")
    assert cluster.job(jobs[torch])["NodeList"] != lost
    cluster.start_node(lost)
    until(lambda: sound(cluster, folder) and not cluster.queue(), 900)

    seen = {cell: cluster.job(number) for cell, number in jobs.items()}
    said = {cell: (folder / f"logs/{cell}.log").read_text()[-1500:] for cell in jobs}
    assert {cell: job["JobState"] for cell, job in seen.items()} == dict.fromkeys(jobs, "COMPLETED"), said
    assert {cell: job["Restarts"] for cell, job in seen.items() if job["Restarts"] != "0"} == {torch: "1"}
    plan = json.loads((folder / "plan.json").read_text())
    for cell in plan["cells"]:
        for need in cell["needs"]:
            if cell["id"] in seen and need in seen:
                assert seen[need]["EndTime"] <= seen[cell["id"]]["StartTime"], (need, cell["id"])
    # One record for each, whoever did it; whole: every output is the bytes that it is named after.
    records = list((folder / "store/_pipeline/s1/cells").rglob("*.json"))
    assert sorted(json.loads(path.read_bytes())["cell"] for path in records) == sorted(jobs)
    for path in records:
        for output in json.loads(path.read_bytes())["outputs"]:
            content = (folder / "store" / output["key"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == output["sha256"], output["path"]
    listed = subprocess.run(
        [BIN / "rocwright", "set", "log", "release", "--store", folder / "store", "--json"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert len(json.loads(listed)["events"]) == 1, listed


def sound(cluster: Cluster, folder: Path) -> bool:
    """No job waits for one that failed: that would be forever."""
    if "DependencyNeverSatisfied" in cluster.ask("squeue", "--noheader", "--format=%r"):
        pytest.fail("\n".join(path.read_text()[-1500:] for path in folder.glob("logs/**/*.log")))
    return True


def compiles(argv: str, below: Path) -> bool:
    program = argv.partition(" ")[0]
    return str(below) in argv and "clang" in program and " -c " in argv


def again(cluster: Cluster, folder: Path) -> str:
    done = subprocess.run(["bash", folder / "submit.sh"], env=cluster.env, text=True, capture_output=True)
    assert done.returncode == 0
    return done.stderr
