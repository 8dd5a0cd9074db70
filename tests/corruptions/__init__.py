"""Corruptions in topics, receipts and tables, and what has to find each of them and invent none."""
