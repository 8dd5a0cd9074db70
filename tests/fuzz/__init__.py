"""Fuzzing of all compiled code. `python -m tests.fuzz --minutes 60 --seed 1` runs it under sanitizers."""
