"""Every option of the source and the sink, declared once.

Runs on the driver. `source` and `sink` parse both dialects into the same frozen configs (`config`); what is
wrong with an option is said here, before a job starts. See docs/options.md for the reference.

Invariant: nothing is imported here, because executors load this package for the configs only.
"""
