"""The SQL of the command line: rows as texts, live tables, and the prompt.

    cells.py       values and rows as texts
    changes.py     the rows of a changelog, applied
    select.py      runs a SELECT and shows its rows
    statements.py  where a statement ends while it is typed
    suggest.py     what may come next at the cursor
    prompt.py      the prompt itself (prompt_toolkit)

Runs on the driver. Invariant: `cells`, `changes`, `statements` and `suggest` are pure.
"""
