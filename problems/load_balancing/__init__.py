"""Shard load balancing: replicas of shards on servers, balanced loads, few movements a round."""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
