"""The editable program: its edit methods, its records, and the validation of every edit.

Read `program.py` first. Every edit method parses its arguments into one `Edit` (`parse.py`) and applies it.

- `fields.py` has the table of the arguments of edit methods, for one request or resource and for many.
- `validation.py` checks single values, `forms.py` values for many requests, and `usage.py` columns.
- `column_edits.py` makes the edits of single columns. `sense.py` converts figures of a maximisation.
- `table.py` reads requests from a long table.
- `index.py` maps ids to slots of the store. `names.py` keeps the names of columns.
- `series.py` puts the values of a pandas Series in the order of the ids.
- `handles.py` has the handles of shared columns.
- `records.py` has the records that `program.requests[...]` and `program.resources[...]` return.
- `bounded.py` rejects edits that leave a column without a bound, and `guard.py` rejects concurrent use.
"""
