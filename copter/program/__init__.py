"""What a user edits: the program, its requests and resources, and the checks of every edit.

Read `program.py` first: every verb parses its arguments into one `Edit` (`parse.py`) and applies it.
`validation.py` has the checks of single values, `forms.py` those of values for many requests, `usage.py`
the columns.  `index.py` knows the slots of ids, `handles.py` what is
shared, `records.py` is what `program.requests[...]` gives back, `guard.py` the lock.
"""
