"""Calls to other systems after each commit."""
