"""Passes: functions from a plan to a plan, in the order of `PASSES`.

Runs on the driver. Invariant: each pass gives a plan with the same rows.
"""
