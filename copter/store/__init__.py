"""Where a program lies: flat arrays by slot, edited in place."""
