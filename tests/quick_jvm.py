"""Settings of the tests' JVMs. Most of them live less than a minute, so a quick start matters, not speed."""

from __future__ import annotations

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Only Java's fast compiler, and the garbage collector that starts no threads."""
