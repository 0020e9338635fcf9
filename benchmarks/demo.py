"""What the whole way costs: `rocwright demo` with an empty cache, with ROCm packages cached, and again.

``python benchmarks/demo.py [--work-dir DIR] [--cache-dir DIR]`` prints one JSON object. Without --cache-dir
the packages are downloaded into the work directory, so the first run starts with an empty cache; with one,
that run is left out. Memory is the largest sum of resident sets over the demo and all its descendants, read
from /proc every 0.2 s; shared pages count once a process, so the figure errs high.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOALS = {"empty cache": 360.0, "packages cached": 150.0, "nothing changed": 20.0}
MOST_MEMORY = 1_500_000_000


def tree_rss(root: int) -> int:
    """Bytes resident in a process and all its descendants."""
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        resident[int(entry.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    total, queue = 0, [root]
    while queue:
        pid = queue.pop()
        total += resident.get(pid, 0)
        queue += children.get(pid, [])
    return total


def run(command: list[str]) -> dict[str, object]:
    """One run of the demo: seconds by itself and in all, memory, states of its steps."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        most = 0
        while child.poll() is None:
            most = max(most, tree_rss(child.pid))
            time.sleep(0.2)
        if child.returncode:
            raise SystemExit(f"{shlex.join(command)} ended with {child.returncode}")
        output.seek(0)
        report = json.load(output)
    states = [step["state"] for step in report["steps"]]
    return {
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": report["cpu_s"],
        "peak_tree_rss_bytes": most,
        "largest_process_bytes": report["peak_rss"],
        "steps_done": states.count("done"),
        "steps_cached": states.count("cached"),
        "slowest": sorted(((s["wall_s"], s["id"]) for s in report["steps"]), reverse=True)[:5],
    }


def main() -> int:
    """Run the demo two or three times and hold the figures against the goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work-dir", type=Path, default=Path("demo-bench"))
    parser.add_argument("--cache-dir", type=Path)
    options = parser.parse_args()
    cache = options.cache_dir or options.work_dir / "cache"
    work = options.work_dir / "work"
    command = [str(Path(sys.executable).with_name("rocwright")), "demo", "--json"]
    command += ["--work-dir", str(work), "--cache-dir", str(cache)]
    runs: dict[str, dict[str, object]] = {}
    if options.cache_dir is None:
        shutil.rmtree(options.work_dir, ignore_errors=True)
        runs["empty cache"] = run(command)
    shutil.rmtree(work, ignore_errors=True)
    runs["packages cached"] = run(command)
    # The run right after finds its files hard-linked into the store since, and hashes them once.
    runs["nothing changed"] = run(command)
    shutil.rmtree(options.work_dir, ignore_errors=True)
    met = all(figures["wall_s"] <= GOALS[name] for name, figures in runs.items())
    met = met and all(figures["peak_tree_rss_bytes"] <= MOST_MEMORY for figures in runs.values())
    print(
        json.dumps(
            {
                "goal": {"wall_s": GOALS, "peak_tree_rss_bytes": MOST_MEMORY},
                "measured": runs,
                "met": met,
                "cores": len(os.sched_getaffinity(0)),
                "uid": os.getuid(),
                "command": shlex.join(command),
            },
            indent=2,
        )
    )
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
