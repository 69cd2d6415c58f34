"""A random test of rounds: a mirror in plain Python, edits of every kind, and judges that know no copter."""
