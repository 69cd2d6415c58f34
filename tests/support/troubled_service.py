"""`copter serve` on a machine in trouble: files in a folder say what is wrong at the moment.

    python troubled_service.py TROUBLE serve ARGUMENTS...

If the file ``full`` is there, the disk is full.  If ``hang`` is there, the next decision of the policy does
not return; the file is then renamed to ``hung``.  The file ``clock`` has the seconds by which the clock of
the machine is ahead.
"""

import errno
import sqlite3
import sys
import threading
import time
from pathlib import Path

FULL, HANG, HUNG, CLOCK = "full", "hang", "hung", "clock"


def disturb(trouble):
    """Replace what the service uses by what depends on the files."""
    import copter.live.backends.base as base
    import copter.live.rounds as rounds
    from copter.live.journal import LiveJournal

    flush, write_whole, make_policy = LiveJournal.flush, base.write_whole, rounds.make_policy

    def flushed(journal):
        if (trouble / FULL).exists():
            raise sqlite3.OperationalError("database or disk is full")
        flush(journal)

    def written(path, write, **options):
        if (trouble / FULL).exists():
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_whole(path, write, **options)

    def made(name, **settings):
        policy = make_policy(name, **settings)
        schedule = policy.schedule

        def hanging(now):
            if (trouble / HANG).exists():
                (trouble / HANG).rename(trouble / HUNG)
                threading.Event().wait()
            return schedule(now)

        policy.schedule = hanging
        return policy

    LiveJournal.flush, base.write_whole, rounds.make_policy = flushed, written, made


def turn_clock(trouble):
    """Let the clock of this process be ahead of that of the machine."""
    true = time.time

    def turned():
        path = trouble / CLOCK
        return true() + (float(path.read_text()) if path.exists() else 0.0)

    time.time = turned


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    turn_clock(folder)
    disturb(folder)
    from copter.cli.main import main

    main()
