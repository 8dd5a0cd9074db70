"""Keyed state of a streaming query in Arrow files: one folder for each partition, one version for each batch.

Runs on executors. Knows neither Kafka nor Spark. Invariants: a task of batch b reads version b-1 and writes
version b, under names that no other attempt uses; a file never changes once it is complete; a version exists
if and only if one of its manifests is complete. So retries, speculative attempts and replayed batches all
write the same state, and a task that dies leaves only files that no manifest names.

    columns.py    the columns that the state adds to the rows it keeps, and the hashes of keys
    files.py      file systems: local, and everything that pyarrow.fs knows
    run.py        one file of sorted rows
    identity.py   which query, operator and columns a state belongs to
    shared_folder.py  notices a folder that is not shared by all machines
    manifest.py   the runs of one version
    lineage.py    the runs of the query, and which manifest of a version counts
    seal.py       which runs wrote the versions of before, so that old claims can go
    sweep.py      deletes old claims, what dead tasks left, and what no later batch needs
    snapshot.py   the runs of one version, open: finds the rows of keys
    merge.py      merges runs, so that their number stays small
    store.py      loads and saves a version: what a task calls
    repartition.py  copies a state into another number of partitions
    tools.py      behind `penstock state`

docs/decisions/0008-own-keyed-state.md says why Spark's state store is not used, and describes the files.
"""
