"""A Spark Connect server as a child process: it prints its address, then serves until its stdin is closed.

Runs in tests only. Invariant: ends with its parent, also when the parent is killed.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession


def main(settings: list[str]) -> None:
    builder: Any = SparkSession.builder
    for setting in settings:
        key, _, value = setting.partition("=")
        builder = builder.config(key, value)
    session = (
        builder.config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.connect.grpc.binding.port", "0")
        .getOrCreate()
    )
    # With port 0 the system chooses a port. Only the Scala object knows it.
    service = getattr(session._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    sys.stdout.write(f"sc://127.0.0.1:{getattr(service, 'MODULE$').localPort()}\n")
    sys.stdout.flush()
    sys.stdin.read()
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
