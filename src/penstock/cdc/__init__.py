"""Databases as tables: the columns of change messages, which may change while a query runs."""
