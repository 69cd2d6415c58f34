"""What every backend promises, as tests that the tests of a backend inherit.

They use the fixtures `backend`, `again` (end the backend, and return another one), `runs`, and `nodes`: two
nodes of four GPUs.
"""

import sys

from live_runs import STUBBORN, pids, state, until_ended, until_gone, until_said, worker

from copter.live.backends.base import STOPPED, RunState


class EveryBackend:
    def test_a_run_on_two_nodes_completes_and_its_processes_know_who_they_are(self, backend, runs, nodes):
        first, second = nodes
        assert backend.down() == {}
        run = runs.make({second: 3, first: 1}, worker(0.0))
        backend.start(run)
        said = [[line.split() for line in lines] for lines in until_said(backend, run)]
        ranks = [[line[:3] for line in lines] for lines in said]
        assert ranks == [[["0", str(rank), "4"] for rank in range(3)], [["1", "3", "4"]]]
        gpus = {line[3] for line in said[0]}
        assert len(gpus) == 3 or gpus == {"-"}  # nothing picks GPUs on a machine that has none
        assert until_ended(backend, run) == RunState("completed", exit_code=0)

    def test_one_process_stands_for_all_gpus_if_that_is_wanted(self, backend, runs, nodes):
        run = runs.make(dict.fromkeys(nodes, 2), worker(0.0), once=True)
        backend.start(run)
        (said,), nothing = until_said(backend, run)
        assert said.split()[:3] == ["0", "0", "1"] and not nothing
        assert until_ended(backend, run) == RunState("completed", exit_code=0)

    def test_a_run_is_stopped_by_sigterm_and_another_one_killed(self, backend, runs, nodes):
        stopped = runs.make(dict.fromkeys(nodes, 2), worker())
        killed = runs.make({nodes[0]: 1}, (sys.executable, "-S", "-c", STUBBORN))
        for run in (stopped, killed):
            backend.start(run)
            until_said(backend, run)
            backend.stop(run)
        assert until_ended(backend, stopped) == RunState("stopped", exit_code=STOPPED)
        assert state(backend, killed) == RunState()
        agents = pids(killed)
        backend.kill(killed)
        assert until_ended(backend, killed).outcome == state(backend, killed).outcome == "lost"
        until_gone(backend, *agents)

    def test_a_command_is_not_read_by_a_shell(self, backend, runs, nodes):
        words = ("a b", "$(touch broken)", "'\"", "x\ny", "; exit 1", "\\", "%j", "`id`", "$HOME", "*")
        program = "import os, sys; print(repr(sys.argv[1:]), repr(os.environ['SAID']))"
        command = (sys.executable, "-S", "-c", program, *words)
        run = runs.make({nodes[0]: 1}, command, environment={"SAID": words[1]})
        backend.start(run)
        assert until_ended(backend, run) == RunState("completed", exit_code=0)
        assert (run.folder / "log-0.txt").read_text() == f"{list(words)!r} {words[1]!r}\n"

    def test_a_failed_process_ends_the_run_and_its_code_is_told(self, backend, runs, nodes):
        command = ("sh", "-c", 'test "$COPTER_NODE" = 0 && exit 3; sleep 600')
        run = runs.make({nodes[0]: 1, nodes[1]: 2}, command)
        backend.start(run)
        ended = until_ended(backend, run)
        assert (ended.outcome, ended.reason) == ("failed", "process 0 on the node ended with exit code 3")
        until_gone(backend, *pids(run))

    def test_a_run_is_found_again_by_a_later_service(self, backend, again, runs, nodes):
        run = runs.make(dict.fromkeys(nodes, 1), worker())
        backend.start(run)
        until_said(backend, run)
        backend.start(run)  # asked twice
        later = again()
        assert state(later, run) == RunState() and len(pids(run)) == 2
        later.stop(run)
        assert until_ended(later, run) == RunState("stopped", exit_code=STOPPED)


class WaitingBackend(EveryBackend):
    """A run waits for GPUs that another one has."""

    def test_a_waiting_run_that_is_stopped_never_begins(self, backend, runs, nodes):
        busy = runs.make({nodes[0]: 4}, worker())
        backend.start(busy)
        until_said(backend, busy)
        for end in (backend.stop, backend.kill):
            run = runs.make({nodes[0]: 1}, worker())
            backend.start(run)
            end(run)
            assert until_ended(backend, run).outcome == "lost"
            assert not list(run.folder.glob("log-*"))
        backend.kill(busy)
