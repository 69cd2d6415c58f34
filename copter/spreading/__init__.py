"""Tasks that know nothing of each other: one after the other, in processes of their own, or on Ray."""
