"""Rounds one after another: intervals, ends, signals, metrics."""
