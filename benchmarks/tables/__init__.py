"""Measure tables that `materialize` keeps, at the size of a database.

Each case runs alone, in some minutes, and prints a line of JSON for each measure:

    batch       a batch of changes in a table of millions of rows: applied by the driver, and by executors
                (`staging`). Kinds: delta, iceberg. Tables: rows, history, log. Executors: 1 to 4
    postgresql  a batch of changes in a table of PostgreSQL: rows by INSERT, and by COPY
    topics      many topics that become tables, in one query or in one for each: start, processor time, memory
    beside      `topics` in both ways at several numbers of topics, and the lines through their points
    freshness   the time from the producer's call to the commit that shows the record

A table of a case with more than some million rows is built first, in `--folder`, and used again by the next
run. Each batch has other keys, uniform over the table: 70 % updates, 20 % inserts, 10 % deletes. After each
measure the number of rows is compared with the true one, and another number ends the run.
"""
