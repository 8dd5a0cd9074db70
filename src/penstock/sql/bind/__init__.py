"""Binding: what a query of the parser means, as a plan.

Runs on the driver. Invariant: only this room knows the parser's tree. Each part of the tree is bound or
refused with line and column, and nothing runs.
"""
