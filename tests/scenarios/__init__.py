"""Scripts against a cluster, on the fake one (tests/unit/testing) and on a real one (tests/kafka).

A fake is honest only if each script passes on both. A script is a function with the mark `scenario`. It gets
a `Cluster` and makes topics of its own there.
"""
