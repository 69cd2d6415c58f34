"""The agent: a program that runs the processes of one run on one node and records how they ended.

    python -I -S agent.py FOLDER NODE

It imports the standard library only, so that it starts in 20 ms on any node that has Python and sees the
folder.  It reads ``run.json`` and claims its part by creating ``begun-NODE.json``; it ends if that file
already exists. It starts one process for each GPU, or a single process. If it gets SIGTERM, it sends SIGTERM
to the processes. If a process fails, the agent ends the other processes. At the end it kills all processes of
its part that are left and writes ``ended-NODE.json``; while the disk is full, it tries again. If it gets
SIGUSR2, it kills the processes of its part at once and writes no file.  The file ``log-NODE.txt`` has the
output of the processes.  While they run, the agent checks this file every second, and cuts it if it takes
more than ``log_bytes`` of run.json.

The processes of a part are the descendants of the agent, and the processes whose environment names the part.
The agent is a child subreaper, so orphans remain its descendants, even in another session.  If the agent
itself is killed, the processes that it started die with it. A backend finds the other processes of the part
by their environment (:func:`kill_part`), unless a process has cleared its environment.

If the variable COPTER_CGROUP names a cgroup (:mod:`.cgroups`), the agent starts the processes inside it and
stays outside.  All processes in the cgroup belong to the part, and are killed by one write to a file.

The environment of each process has these variables:

    COPTER_RUN_FILE                 the path of run.json
    COPTER_RANK, COPTER_RANKS       its number among all processes of the run, and the number of these
    COPTER_LOCAL_RANK               its number among the processes on the node
    COPTER_NODE                     the number of the node in the run
    CUDA_VISIBLE_DEVICES            its GPU, if COPTER_DEVICES lists the GPUs of the run on this node
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL for processes whose sibling failed."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
RUN_FILE = "run.json"
DEVICES = "COPTER_DEVICES"
"""Variable of an agent with the names of its GPUs; jobs do not get it."""
CGROUP = "COPTER_CGROUP"
"""Variable of an agent with the folder of the cgroup for its processes; jobs do not get it."""
STOPPED = 75
"""Exit code of a process that wrote a checkpoint and ended after a stop signal (EX_TEMPFAIL of sysexits)."""
SCAN_SECONDS = 0.01
"""Time between two searches for remaining processes."""
_KILLED_SECONDS = 2.0
"""Time that :func:`kill_part` waits for the end of the processes that it kills.

A process that waits for a device can take minutes to end; the next call finds it again."""
_AGAIN_SECONDS = 1.0
"""Time between two attempts to write how the run ended, on a full disk."""
_LOG_SECONDS = 1.0
"""Time between two checks of the size of the log."""
_KEPT_LOG_BYTES = 1024 * 1024
"""Largest part at the end of a log that stays when the log is cut."""
_libc = ctypes.CDLL(None, use_errno=True)


def main(folder: str, node: int) -> int:
    """Run the processes of a node; return 0 if all completed, 75 if they were stopped, otherwise 1."""
    with open(os.path.join(folder, RUN_FILE), encoding="utf-8") as file:
        run = json.load(file)
    processes: list[subprocess.Popen[bytes]] = []
    told: list[int] = []
    handing_on = threading.Lock()
    cgroup = os.environ.get(CGROUP, "")

    def hand_on(number: int, _: Any) -> None:
        told.append(number)
        if handing_on.acquire(blocking=False):  # if not, this call interrupts the handler of another signal
            for process in processes:
                terminate(process, run["once"])
            handing_on.release()

    def end_now(number: int, _: Any) -> None:
        _end_the_rest(folder, node, cgroup)
        os._exit(1)

    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphaned descendants become children of this process
    # Install the handlers before the part is claimed, because a signal may arrive right after the claim.
    signal.signal(signal.SIGTERM, hand_on)
    signal.signal(signal.SIGUSR2, end_now)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not claim(folder, node, identity()):
        print(f"{run['job']}.{run['number']}: another agent has claimed this part", file=sys.stderr)
        return 1
    began, log = time.time(), None
    try:
        log = open(os.path.join(folder, f"log-{node}.txt"), "a+b", buffering=0, opener=_private)
        for process in start(run, folder, node, log, cgroup):
            processes.append(process)
            if told:  # a signal arrived while the processes were being started
                terminate(process, run["once"])
        limit_log(log.fileno(), run["log_bytes"])
        outcome = wait(processes, told)
    except OSError as error:
        outcome = {"code": 1, "reason": f"cannot be started: {error}"}
    _end_the_rest(folder, node, cgroup)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    if log is not None:
        try_to_cut(log.fileno(), run["log_bytes"])
    write_when_possible(
        os.path.join(folder, f"ended-{node}.json"), outcome | {"began": began, "ended": time.time()}
    )
    return int(outcome["code"]) if outcome["code"] in (0, STOPPED) else 1


def claim(folder: str, node: int, content: dict[str, Any]) -> bool:
    """Claim a node's part of a run, which is possible once; return False if it has been claimed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        handle = os.open(os.path.join(folder, f"begun-{node}.json"), flags, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w") as begun:
        json.dump(content, begun)
    return True


def _private(path: str, flags: int) -> int:
    """Open a file; if it is new, only its owner can read it."""
    return os.open(path, flags, 0o600)


def identity() -> dict[str, Any]:
    """Return the number of this process, and an id of this machine since its last start."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return {"pid": os.getpid(), "boot": file.read().strip()}


def start(
    run: dict[str, Any], folder: str, node: int, log: Any, cgroup: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the node's processes, one after the other, inside a cgroup if one is given."""
    first, count = (0, int(node == 0)) if run["once"] else (sum(run["gpus"][:node]), run["gpus"][node])
    if not count:
        return
    total = 1 if run["once"] else sum(run["gpus"])
    devices = [one for one in os.environ.get(DEVICES, "").split(",") if one]
    own = {name: value for name, value in os.environ.items() if name not in (DEVICES, CGROUP)}
    parent = os.getpid()
    os.chdir(run["directory"])

    def prepare() -> None:
        if cgroup:
            put(f"{cgroup}/cgroup.procs", "0")
        die_with(parent)

    for local in range(count):
        environment = (
            own
            | run["environment"]
            | {
                "COPTER_RUN_FILE": os.path.join(folder, RUN_FILE),
                "COPTER_RANK": str(first + local),
                "COPTER_RANKS": str(total),
                "COPTER_LOCAL_RANK": str(local),
                "COPTER_NODE": str(node),
            }
        )
        if devices:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(devices) if run["once"] else devices[local]
        try:
            process = subprocess.Popen(
                run["command"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=prepare,
            )
        except subprocess.SubprocessError:  # an error in `prepare`, without its reason
            raise OSError(f"a process could not be moved to the cgroup {cgroup}") from None
        yield process


def terminate(process: subprocess.Popen[bytes], all_of_it: bool) -> None:
    """Send SIGTERM to a process and, if `all_of_it`, to its descendants.

    A shell does not forward signals, so the descendants of a command get the signal too.  For a training job
    only the process itself gets it, because its data loaders are needed until the checkpoint is written.

    Signal handlers may call this function at any time, so only :func:`wait` collects processes that ended.
    """
    if process.returncode is not None:
        return
    for pid in _below(process.pid, _living()) if all_of_it else ():
        send(pid, signal.SIGTERM)
    send(process.pid, signal.SIGTERM)


def part_processes(folder: str, node: int, agent: int | None = None) -> list[int]:
    """Return the numbers of the processes of a node's part that have not ended, without the agent.

    Without the number of a living agent, only the environment of a process shows to which part it belongs.
    """
    marks = {os.fsencode(f"COPTER_RUN_FILE={os.path.join(folder, RUN_FILE)}"), f"COPTER_NODE={node}".encode()}
    living = _living()
    found = set() if agent is None else {pid for pid in _below(agent, living) if send(pid, 0)}
    for pid in living.keys() - found - {agent, os.getpid()}:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read()
        except OSError:  # the process has ended, or belongs to another user
            continue
        if marks.issubset(variables.split(b"\0")):
            found.add(pid)
    return sorted(found)


def kill_part(folder: str, node: int, agent: int | None, *, cgroup: str = "") -> bool:
    """Kill the processes of a node's part and then its agent, if any; return whether none is left.

    The agent is paused first.  It remains the parent of orphans, which can be found until they have ended.
    """
    deadline = time.monotonic() + _KILLED_SECONDS
    if agent is not None:
        send(agent, signal.SIGSTOP)
    while _kill_once(folder, node, agent, cgroup):
        if time.monotonic() > deadline:
            return False
        time.sleep(SCAN_SECONDS)
    if agent is not None:
        send(agent, signal.SIGKILL)
    return True


def _end_the_rest(folder: str, node: int, cgroup: str) -> None:
    """Kill the processes that are left, so that they do not use the GPUs of a run that has ended."""
    while _kill_once(folder, node, os.getpid(), cgroup):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            pass  # processes that are no children of the agent may be left
        time.sleep(SCAN_SECONDS)


def _kill_once(folder: str, node: int, agent: int | None, cgroup: str) -> bool:
    """Send SIGKILL to the processes of a node's part; return whether there were any.

    Processes outside the cgroup are searched only when the cgroup is empty, because a search takes long while
    processes in the cgroup fork.
    """
    if kill_cgroup(cgroup):
        return True
    left = part_processes(folder, node, agent)
    for pid in left:
        send(pid, signal.SIGKILL)
    return bool(left)


def kill_cgroup(cgroup: str) -> bool:
    """Kill all processes in a cgroup at once; return whether there were any that have not ended."""
    if not cgroup or "populated 1" not in _read(f"{cgroup}/cgroup.events"):
        return False
    try:
        put(f"{cgroup}/cgroup.kill", "1")
    except FileNotFoundError:  # before Linux 5.14
        for pid in _read(f"{cgroup}/cgroup.procs").split():
            send(int(pid), signal.SIGKILL)
    return True


def _read(path: str) -> str:
    """Return the text of a cgroup's file; empty if there is no such file, or the cgroup was removed."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
        return ""


def put(path: str, text: str) -> None:
    """Write a text to an existing file by one call, as the files of cgroups require."""
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _living() -> dict[int, int]:
    """Return the parent of each process of this machine that has not ended, by the process's number."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        # A process whose first thread has ended counts as a zombie, although its other threads run.
        if fields[0] not in (b"Z", b"X") or int(fields[17]) > 1:
            parents[int(name)] = int(fields[1])
    return parents


def _below(pid: int, parents: dict[int, int]) -> set[int]:
    """Return the descendants of a process."""
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    left = [pid]
    while left:
        for child in children.get(left.pop(), ()):
            if child not in found:
                found.add(child)
                left.append(child)
    return found


def send(pid: int, number: int) -> bool:
    """Send a signal to a process; return False if it has ended, or belongs to another user."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Make this process get a signal when its `parent` ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # the parent ended before the call of prctl
        os._exit(1)


def limit_log(log: int, most: int) -> None:
    """Cut a log every second if it takes more than `most` bytes, in the handler of a timer's signal."""
    signal.signal(signal.SIGALRM, lambda *_: try_to_cut(log, most))
    signal.setitimer(signal.ITIMER_REAL, _LOG_SECONDS, _LOG_SECONDS)


def try_to_cut(log: int, most: int) -> None:
    """Cut a log that takes too much; after an error, such as a full disk, a later attempt may succeed."""
    with suppress(OSError):
        cut_log(log, most)


def cut_log(log: int, most: int) -> None:
    """Cut a log that takes more than `most` bytes to its last lines, after a line about the cut.

    Processes that append to the log continue behind these lines.  Parts of the file that were never written
    take no space, and do not count.
    """
    found = os.fstat(log)
    if min(found.st_size, 512 * found.st_blocks) <= most:
        return
    begin = found.st_size - min(_KEPT_LOG_BYTES, most // 2)
    kept = os.pread(log, found.st_size - begin, begin)
    kept = kept[kept.find(b"\n") + 1 :]
    gone = found.st_size - len(kept)
    os.ftruncate(log, 0)
    os.write(log, f"copter: the log took more than {most} bytes; {gone} bytes were dropped\n".encode() + kept)


def wait(processes: list[subprocess.Popen[bytes]], told: list[int]) -> dict[str, Any]:
    """Wait for all processes; the first that fails ends the others.

    A process that dies of the SIGTERM from the agent counts as stopped: it had no signal handler yet.
    """
    code, reason, deadline = 0, "", None
    left = dict(enumerate(processes))
    while left:
        if deadline is None:
            gone = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if gone is not None and gone.si_pid not in [process.pid for process in processes]:
                os.waitpid(gone.si_pid, 0)  # an orphan that another process left behind
        for rank, process in list(left.items()):
            got = process.poll()
            if got is None:
                continue
            del left[rank]
            if (got == STOPPED or (got == -signal.SIGTERM and told)) and not reason:
                code = STOPPED
            elif got != 0 and not reason:
                code = got if got > 0 else 128 - got
                how = f"exit code {got}" if got > 0 else f"signal {_signal_name(-got)}"
                reason = f"process {rank} on the node ended with {how}"
                deadline = time.monotonic() + _GRACE_SECONDS
                for other in left.values():
                    other.terminate()
        if deadline is not None and time.monotonic() > deadline:
            for other in left.values():
                other.kill()
            time.sleep(0.02)
    return {"code": code, "reason": reason, "told": bool(told)}


def _signal_name(number: int) -> str:
    """Return the name of a signal, or its number: a real-time signal has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def write_when_possible(path: str, content: dict[str, Any]) -> None:
    """Write a file; while the disk is full, try again every second."""
    while True:
        try:
            write(path, content)
            return
        except OSError as error:  # nothing is printed, because the output may be on this disk too
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            time.sleep(_AGAIN_SECONDS)


def write(path: str, content: dict[str, Any]) -> None:
    """Write a file atomically: it is complete or does not exist."""
    with open(f"{path}.part", "w", encoding="utf-8", opener=_private) as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.part", path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
