"""Snapshots of programs, and journals of rounds.

Read `journal.py` first. A journal is a folder with an SQLite file (`program_file.py`).

- `values.py` encodes values as bytes. `edits.py` encodes edits and applies them again.
- `snapshot.py` converts a program to named values and back. `soundness.py` checks that read data are
  consistent.
- `log.py` is an SQLite file with a version, also of rounds and the service. `files.py` writes other files.
- `state.py` has the protocol of a solver whose state can be saved.
"""
