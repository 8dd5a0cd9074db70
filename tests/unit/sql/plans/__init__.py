"""Plans of SQL that run without Spark: an interpreter, random plans, and what holds for each of them."""
