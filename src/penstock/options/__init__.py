"""Every option of the source and the sink, declared once.

Runs on the driver. `parse` turns both dialects into the same frozen values (`config`, `table_spec`) and
raises an error for a wrong option before a job starts. docs/options.md is the reference.

Invariant: nothing is imported here, because executors load this package only for the frozen values.
"""
