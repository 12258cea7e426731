"""Partitions that expire: their age, the strategies that choose them, and the plan of a run."""
