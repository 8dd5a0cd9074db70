"""Fixtures of the real broker."""
