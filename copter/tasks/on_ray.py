"""Runner of tasks on a Ray cluster: a new one on this machine, or an existing one.

Functions are sent by name, so their modules, and copter, must be installed on every node. A task whose
worker or node dies is run once more, unless it is timed. Arguments that several tasks share are stored once.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from copter.extras import extra
from copter.ray.session import Session
from copter.tasks.tasks import (
    FinishedTask,
    Hear,
    InOrder,
    LostTaskError,
    Task,
    TaskResult,
    TaskRunner,
    Tell,
    outcome,
)

with extra("ray"):
    import ray
    from ray.util.queue import Queue

_LOCAL = "local"
"""Address that means a cluster on this machine only, which starts and ends with the tasks."""
_POLL_SECONDS = 0.1
_RETRIES = 1


class OnRay(TaskRunner):
    """Runner that runs tasks on Ray.

    The address "local" starts Ray on this machine, "auto" joins the cluster of this machine, and
    ``ray://host:port`` or ``host:port`` joins another cluster. An existing connection of this process is
    used. Raise NoClusterError if there is no cluster at the address.
    """

    def __init__(self, address: str = _LOCAL) -> None:
        self._session = Session.join(None if address == _LOCAL else address)

    def each(
        self, tasks: Sequence[Task], hear: Hear | None = None, *, alone: bool = False
    ) -> Iterator[FinishedTask]:
        """Run tasks and yield their results in the order of the tasks."""
        order = InOrder(tasks)
        mailbox = Queue(actor_options={"num_cpus": 0}) if hear is not None else None
        pending: dict[ray.ObjectRef[Any], int] = {}
        try:
            remote, most = _remote(alone)
            stored = _stored(tasks)
            waiting = deque(enumerate(tasks))
            while not order.complete:
                while waiting and len(pending) < most:
                    number, task = waiting.popleft()
                    given = [stored.get(id(one), one) for one in task.arguments]
                    pending[remote.remote(task.name, task.function, number, mailbox, *given)] = number
                done, _ = ray.wait(list(pending), num_returns=1, timeout=_POLL_SECONDS)
                _deliver(mailbox, tasks, hear)
                for ref in done:
                    number = pending.pop(ref)
                    order.put(number, _ended(tasks[number], ref))
                yield from order.ready()
        finally:
            for ref in pending:
                ray.cancel(ref, force=True)
            if mailbox is not None:
                mailbox.shutdown(force=True)

    def close(self) -> None:
        """Leave Ray; end it if copter started or joined it and nothing else uses it."""
        self._session.leave()


def _remote(alone: bool) -> tuple[Any, float]:
    """Return the remote function that runs a task, and the largest number of calls at a time.

    A call has one processor, or, if `alone`, all processors of a node of the largest size. At most as many
    calls with `alone` are sent as there are such nodes. Otherwise a task that waits for tasks of its own
    would release its processors, and another task would start on its node.
    """
    if not alone:
        return ray.remote(num_cpus=1, max_retries=_RETRIES)(_work), math.inf
    sizes = [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]
    work = ray.remote(num_cpus=max(sizes), max_retries=0, max_calls=1)(_work)
    return work, sizes.count(max(sizes))


def _stored(tasks: Sequence[Task]) -> dict[int, Any]:
    """Return references to stored copies of the arguments that several tasks share, by ``id``."""
    counts = Counter(id(one) for task in tasks for one in task.arguments)
    shared = {id(one): one for task in tasks for one in task.arguments if counts[id(one)] > 1}
    return {key: ray.put(one) for key, one in shared.items()}


def _work(
    name: str, function: Callable[..., Any], number: int, mailbox: Queue | None, *arguments: Any
) -> TaskResult:
    """Run a task in a worker process."""
    task, tell = Task(name, function, arguments), _teller(number, mailbox)
    return outcome(task, tell)


def _teller(number: int, mailbox: Queue | None) -> Tell | None:
    return None if mailbox is None else lambda message: mailbox.put((number, message))


def _deliver(mailbox: Queue | None, tasks: Sequence[Task], hear: Hear | None) -> None:
    """Pass the messages so far to `hear`."""
    if mailbox is None or hear is None:
        return
    for number, message in mailbox.get_nowait_batch(mailbox.qsize()):
        hear(tasks[number], message)


def _ended(task: Task, ref: ray.ObjectRef[Any]) -> FinishedTask:
    try:
        done: TaskResult = ray.get(ref)
    except ray.exceptions.RayError as error:
        return FinishedTask(task, error=LostTaskError(f"{task.name}: {type(error).__name__}: {error}"))
    return done.ended(task)
