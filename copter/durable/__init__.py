"""What outlives a process: snapshots and the journal of rounds.

Read `journal.py` first: a folder with a snapshot (`snapshot.py`) and a file of rounds (`records.py`),
whose edits are written and made again by `edits.py`.  `blocks.py` is a file of named arrays, `codec.py`
values as bytes, `files.py` writing that is whole or not at all.  `stores.py` and `parts.py` are the
store's share of a snapshot, `soundness.py` whether what was read fits together, `state.py` what a solver
gives to be kept.
"""
