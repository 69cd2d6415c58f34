"""A backend without processes: runs are entries of a table, and end when a test says so."""

from copter.live.backends.base import BackendError, RunState


class MemoryBackend:
    name = "memory"
    picks_devices = False
    notice = ""

    def __init__(self, ends_at_once=False):
        self.runs, self.ended, self.started = {}, {}, []
        self.stopped, self.killed, self.broken = [], [], {}
        self.away = ""
        self.ends_at_once = ends_at_once
        self.ignores_stop = False

    def _answer(self):
        if self.away:
            raise BackendError(self.away)

    def down(self):
        self._answer()
        return dict(self.broken)

    def start(self, run):
        self._answer()
        assert run.id not in self.runs, f"{run.id} is started twice"
        self.runs[run.id] = run
        self.started.append(run)
        if self.ends_at_once:
            self.end(run.id)

    def stop(self, run):
        self._answer()
        self.stopped.append(run.id)
        if not self.ignores_stop:
            self.end(run.id, "stopped")

    def kill(self, run):
        self._answer()
        self.killed.append(run.id)
        self.end(run.id, "lost", "it was killed")

    def states(self, runs):
        self._answer()
        for run in runs:
            if any(host in self.broken for host in run.hosts):
                self.end(run.id, "lost", "its node failed")
            if run.id not in self.runs:
                self.end(run.id, "lost", "it never began")
        ended = {run.id: self.ended.get(run.id) for run in runs}
        return {id: RunState(*one) if one else RunState() for id, one in ended.items()}

    def end(self, id, *state):
        self.ended.setdefault(id, state or ("completed",))

    def close(self):
        pass
