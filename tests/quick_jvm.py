"""How the tests' JVMs are started: most live for less than a minute, so the start counts, not the speed."""

from __future__ import annotations

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's fast compiler only, and the garbage collector that starts no threads."""
