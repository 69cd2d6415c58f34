"""What the suite measured, as people read it.

`page.py` makes a report of a folder of results and writes it as HTML and Markdown; read it first.  A report
is made of claims (`model.py`): `sections.py` makes those of the suite's lines, `papers.py` those of the
papers' tables, `pictures.py` draws.  `comparison.py` holds two folders against each other.  `templates/` has
the page.
"""
