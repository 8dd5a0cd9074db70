"""The soak of the source: `python -m tests.soak --minutes 20`. Not a part of `make test`."""
