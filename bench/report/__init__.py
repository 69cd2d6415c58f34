"""What the suite measured, as people read it: a report of a folder of results, and two of them compared."""
