"""Print the rows of Iceberg tables as Spark reads them. Runs in an environment without penstock."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    jar, *paths = sys.argv[1:]
    spark = SparkSession.builder.master("local[2]").config("spark.jars.packages", jar).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    found = {}
    for path in paths:
        rows = spark.read.format("iceberg").load(path).select("id", "part", "text")
        ranges = [rows.where(F.col("id").between(first, first + 99)) for first in range(0, 3000, 100)]
        found[path] = {
            "all": sorted(map(list, rows.collect())),
            "one by one": sorted(list(row) for each in ranges for row in each.collect()),
        }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
