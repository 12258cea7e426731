"""Positions of a source at its first round, from elsewhere."""
