"""Models on machines: each is served in one size on one kind of machine, or not at all."""
