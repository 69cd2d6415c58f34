"""What outlives a process: snapshots, and the journal of rounds.

Read `journal.py` first: a folder with an SQLite file (`program_file.py`), whose values `values.py` writes.
`snapshot.py` says what a program's values are, and reads the store by its public ``arrays()``; `edits.py`
writes edits and makes them again; `soundness.py` checks that what was read fits together.  `database.py`
opens SQLite files, those of the live service too; `files.py` writes other files whole or not at all.
`state.py` says what a solver must be for its state to be kept.
"""
