"""Stores that the files of a state may be in, run on this machine: real servers and emulators."""
