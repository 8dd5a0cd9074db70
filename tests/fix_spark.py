"""Fixtures of real Spark."""
