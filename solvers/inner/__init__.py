"""The inner problem of a proximal step on a working set: Newton and coordinate descent."""
