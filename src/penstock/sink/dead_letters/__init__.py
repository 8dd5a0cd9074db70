"""Dead letters: find them, put them back into their topics, and remember which are back.

Runs on the machine of `penstock dead-letters`. `found` reads dead letters, `notes` is the topic that says
which records are back, `requeue` puts them back. Invariant: a record is back if and only if there is a note.
"""
