"""Report of the suite's results for readers.

Read `page.py` first: it makes the report of a folder of results and writes it as HTML and Markdown.  A report
consists of claims (`model.py`). `sections.py` makes the claims about the suite's lines, `papers.py` makes
those about tables of papers, and `pictures.py` draws the pictures.  `comparison.py` compares two folders.
`templates/` contains the templates of the page.
"""
