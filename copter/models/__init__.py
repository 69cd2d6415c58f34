"""Linear programs of other people: their form, and the files they come in."""
