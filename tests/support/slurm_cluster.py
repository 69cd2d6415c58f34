"""A real Slurm on this machine: munged, slurmctld, a slurmd for each node, and device files for GPUs.

with SlurmCluster(folder, {"a100": (2, 4), "t4": (2, 4)}) as cluster:  # two nodes with four GPUs, each
    subprocess.run(["sinfo"])
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from support.service_process import free_port

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
_SECONDS = 30.0
_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
SlurmdParameters=config_overrides
SlurmdTimeout=6
SlurmctldTimeout=6
MessageTimeout=5
KillWait=10
MinJobAge=3600
ReturnToService=1
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes=ALL MaxTime=60 State=UP
"""


def why_not() -> str:
    """Why there can be no Slurm on this machine; empty if there can be one."""
    missing = [command for command in COMMANDS if not shutil.which(command)]
    if missing:
        return f"{missing[0]} is not installed"
    return "" if os.geteuid() == 0 else "device files and slurmd need root"


class SlurmCluster:
    """A Slurm that runs while its ``with`` block does; commands find it by SLURM_CONF.

    Parameters
    ----------
    folder : Path
        For its files; its path is short enough for a socket.
    types : mapping of str to (int, int)
        Nodes of each type of GPU, and GPUs of each of them.  They are called ``a100-1``, ``a100-2``.
    tracking : str
        How Slurm knows the processes of a job: "linuxproc", or "cgroup" where it may make cgroups.
    """

    def __init__(
        self, folder: Path, types: Mapping[str, tuple[int, int]], tracking: str = "linuxproc"
    ) -> None:
        self.folder = folder
        self.hosts = {type: [f"{type}-{n + 1}" for n in range(count)] for type, (count, _) in types.items()}
        self._types, self._tracking = types, tracking
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._before: str | None = None

    def __enter__(self) -> SlurmCluster:
        try:
            self._write()
            self._before = os.environ.get("SLURM_CONF")
            os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
            self._start_munged()
            self.start_controller()
            for hosts in self.hosts.values():
                for host in hosts:
                    self.start_node(host)
            self.wait_for_nodes("idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if "slurmctld" in self._daemons:
            self.clear()
        for pid in self._processes():
            _kill(pid)
        for process in self._daemons.values():
            process.wait()
        if self._before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = self._before

    def start_controller(self) -> None:
        """Start slurmctld; it goes on with the jobs that it had."""
        self._start("slurmctld", "-D", "-i")
        self._wait("slurmctld", lambda: self._run("scontrol", "ping").returncode == 0)

    def stop_controller(self, number: int = signal.SIGTERM) -> None:
        """End slurmctld by a signal; jobs go on."""
        self._end("slurmctld", number)
        del self._daemons["slurmctld"]

    def start_node(self, host: str) -> None:
        """Start the slurmd of a node."""
        self._start(f"slurmd-{host}", "-D", "-N", host)

    def kill_node(self, host: str) -> None:
        """Kill the slurmd of a node; its jobs go on until slurmctld notices."""
        self._end(f"slurmd-{host}", signal.SIGKILL)
        del self._daemons[f"slurmd-{host}"]

    def fail_node(self, host: str) -> None:
        """Kill the slurmd of a node and all that runs there."""
        self.kill_node(host)
        for pid in self._processes(f"SLURMD_NODENAME={host}"):
            _kill(pid)

    def resume_nodes(self) -> None:
        """Give nodes back that Slurm drained, as an operator would."""
        lines = self._run("sinfo", "--Node", "--noheader", "--format=%N|%T").stdout.split()
        drained = {line.partition("|")[0] for line in lines if "drain" in line}
        for host in sorted(drained):
            self._run("scontrol", "update", f"nodename={host}", "state=resume")

    def clear(self) -> None:
        """End all jobs, and wait until they have."""
        self._run("scancel", "--me", "--signal=KILL")
        self._run("scancel", "--me")
        self._wait("jobs to end", lambda: not self._run("squeue", "--noheader").stdout.strip())

    def wait_for_nodes(self, state: str, *hosts: str) -> None:
        """Wait until nodes, or all, are in a state."""
        which = [f"--nodes={','.join(hosts)}"] if hosts else []

        def reached() -> bool:
            lines = self._run("sinfo", "--Node", "--noheader", "--format=%T", *which).stdout.split()
            return bool(lines) and all(line.rstrip("*") == state for line in lines)

        self._wait(f"nodes to be {state}", reached)

    def _write(self) -> None:
        for name in ("state", "munge"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge").chmod(0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        host, nodes, gres = socket.gethostname(), [], []
        for type, (_, gpus) in self._types.items():
            for name in self.hosts[type]:
                devices = self.folder / name
                devices.mkdir()
                for number in range(gpus):  # nobody opens them: NVIDIA's numbers
                    os.mknod(devices / f"gpu{number}", 0o020600, os.makedev(195, number))
                nodes.append(
                    f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=32 "
                    f"RealMemory=64000 Gres=gpu:{type}:{gpus}"
                )
                files = f"gpu[0-{gpus - 1}]" if gpus > 1 else "gpu0"
                gres.append(f"NodeName={name} Name=gpu Type={type} File={devices}/{files}")
        text = _CONF.format(
            host=host, port=free_port(), folder=self.folder, tracking=self._tracking, nodes="\n".join(nodes)
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def _start_munged(self) -> None:
        own, socket_file = self.folder / "munge", self.folder / "munge.socket"
        files = {"key-file": own / "key", "pid-file": own / "pid", "seed-file": own / "seed"}
        files |= {"log-file": own / "log", "socket": socket_file}
        options = [f"--{name}={path}" for name, path in files.items()]
        self._start("munged", "--foreground", "--force", *options)
        self._wait("munged", socket_file.exists)

    def _start(self, name: str, *arguments: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self._daemons[name] = subprocess.Popen(
                [shutil.which(name.partition("-")[0]) or name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _end(self, name: str, number: int) -> None:
        process = self._daemons[name]
        process.send_signal(number)
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _processes(self, *variables: str) -> list[int]:
        """Daemons, and what they started, even if a daemon was killed since; only those with variables."""
        marks, found = {each.encode() for each in (f"SLURM_CONF={self.folder}/slurm.conf", *variables)}, []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if marks <= set(path.read_bytes().split(b"\0")):
                    found.append(int(path.parent.name))
            except OSError:  # it has ended
                continue
        return found

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not done():
            for name, process in self._daemons.items():
                if process.poll() is not None:
                    log = (self.folder / f"{name}.log").read_text()[-2000:]
                    raise RuntimeError(f"{name} ended with {process.returncode}: {log}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {_SECONDS:g} s for {what}")
            time.sleep(0.05)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGKILL)
