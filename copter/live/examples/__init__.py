"""Jobs that really train, small enough for a laptop: ``python -m copter.live.examples.digits``."""
