"""Binding of expressions: `binder.py`, in parts by kinds of nodes.

Runs on the driver. Invariant: each kind of node has a method that knows all of its parts. Any other node, and
any other part of a node, is refused with its line and column.
"""
