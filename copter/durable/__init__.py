"""Snapshots of programs, and journals of rounds.

Read `journal.py` first. A journal is a folder with an SQLite file (`program_file.py`).

- `values.py` encodes values as bytes. `edits.py` encodes edits and applies them again.
- `snapshot.py` converts a program to named values and back. `soundness.py` checks that read data are
  consistent.
- `log.py` is the base class of all SQLite files: of programs, of rounds and of the service. `files.py` writes
  other files atomically.
- `state.py` has the protocol of a solver whose state can be saved.
"""
