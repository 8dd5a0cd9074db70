"""The operators: pure functions of a batch and the rows that they kept before.

    base.py         what each operator is
    ordering.py     sorts rows by key, and by the columns that say which one is newer
    aggregate.py    count, sum, avg, min, max, count distinct, first, last, listagg of a changelog
    calls.py        the texts of aggregates
    values.py       the different values in groups, for aggregates that need them
    sums.py         sums of groups in which rows also leave
    deduplicate.py  the first or last row of each key
    over/           aggregates of the rows before each row
    sort_by_time.py the rows in the order of their times
    temporal_join.py  each row with the version of its key that was valid at its time
    top_n.py        the first n rows of each group
    join.py         the rows of two changelogs with equal keys
    collapse.py     at most the net change of each key or row in a batch
    normalize.py    upserts and deletes that may come twice, late or out of order -> a correct changelog
    _moved.py       two rows that exchange their keys

They run on executors. Invariant: none of them imports Spark or Kafka.
"""
