"""A real Slurm of two machines on this one, on loopback: munge, a controller, two node daemons.

Everything lies in one directory. Each node has a GPU that is none: a device file like /dev/null, which only
root can make.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

NODES = ("n0", "n1")
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
_SBIN = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_CONF = """\
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={first}
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MpiDefault=none
GresTypes=gpu
MessageTimeout=5
SlurmdTimeout=6
BatchStartTimeout=2
MinJobAge=3600
SchedulerParameters=sched_interval=1,batch_sched_delay=1
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2 RealMemory=8000 Gres=gpu:1
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2 RealMemory=8000 Gres=gpu:1
PartitionName=main Nodes=ALL Default=YES State=UP
"""


def missing() -> str:
    """Why there can be no cluster here; empty where there can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=_SBIN)]
    if absent:
        return f"Debian's slurmctld, slurmd, slurm-client or munge are not installed: no {' '.join(absent)}"
    return "" if os.geteuid() == 0 else "device files that stand for GPUs are made by root only"


class Cluster:
    """Its daemons, and what Slurm says of its jobs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {**os.environ, "PATH": _SBIN, "SLURM_CONF": str(root / "slurm.conf")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        root = self.root
        for name in ("state", "spool/n0", "spool/n1"):
            (root / name).mkdir(parents=True)
        controller, first, second = _free_ports(3)
        host = socket.gethostname().partition(".")[0]
        (root / "slurm.conf").write_text(
            _CONF.format(root=root, host=host, controller=controller, first=first, second=second)
        )
        gres = ""
        for node in NODES:
            # The number of the device is that at the end of its name: the same on each machine.
            (root / f"dev-{node}").mkdir()
            device = root / f"dev-{node}" / "gpu0"
            os.mknod(device, 0o20666, os.makedev(1, 3))
            gres += f"NodeName={node} Name=gpu File={device} Flags=amd_gpu_env\n"
        (root / "gres.conf").write_text(gres)
        subprocess.run(["mungekey", "--create", f"--keyfile={root}/munge.key"], check=True, env=self.env)
        files = {
            "key-file": "key",
            "socket": "sock",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        self._begin("munge", "munged", "-F", *(f"--{name}={root}/munge.{end}" for name, end in files.items()))
        until(lambda: (root / "munge.sock").exists())
        self._begin("controller", "slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        until(lambda: self.states() == dict.fromkeys(NODES, "idle"))

    def start_node(self, node: str) -> None:
        self._begin(node, "slurmd", "-D", "-N", node)

    def _begin(self, name: str, *argv: str) -> None:
        with (self.root / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(argv, env=self.env, stdout=out, stderr=out)

    def end(self) -> None:
        """Its jobs and daemons."""
        if "controller" in self._running:
            for job in self.queue():
                self.ask("scancel", job)
            until(lambda: not self.queue(), 30)
        for child in reversed(self._running.values()):
            child.terminate()
        for child in self._running.values():
            child.wait(timeout=30)

    def ask(self, *argv: str) -> str:
        return subprocess.run(argv, env=self.env, text=True, capture_output=True, check=True).stdout

    def queue(self) -> list[str]:
        return self.ask("squeue", "--noheader", "--format=%i").split()

    def states(self) -> dict[str, str]:
        done = subprocess.run(
            ["sinfo", "-h", "-N", "-o", "%N %T"], env=self.env, text=True, capture_output=True
        )
        return {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}

    def job(self, number: str) -> dict[str, str]:
        """Everything that Slurm has on a job, by the name that it gives it."""
        words = self.ask("scontrol", "--oneliner", "--details", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def lose(self, node: str, job: str) -> None:
        """As if the machine lost its power: the daemon and all processes of the job end at once."""
        daemon = self._running.pop(node)
        steps = [pid for pid, argv in processes() if argv.startswith(f"slurmstepd: [{job}.")]
        lost = [daemon.pid, *steps]
        for pid in lost:
            lost += [child for child, parent in _parents() if parent == pid and child not in lost]
        for pid in lost:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        daemon.wait()


def until(ready: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that happens soon."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def processes() -> Iterator[tuple[int, str]]:
    """Those of this machine: id and arguments, with spaces between them."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(path.parent.name), path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def _parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(path.parent.name), int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
