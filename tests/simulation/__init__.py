"""A simulation of the exactly-once sink: one seed, one history of a cluster, of Spark and of all that fails.

`python -m tests.simulation --histories N` runs histories, and `--seed N` runs one again with its trace.

- `plan`: what a seed stands for: the job, and a list of faults, each at the number of a request.
- `network`: the cluster's model (the fake Kafka on virtual time) and how requests and answers get lost.
- `worker`: the processes of Spark; their tasks run the real `write_in_transaction`.
- `history`: Spark's order of calls, several drivers, and the end in peace.
- `checkpoints`, `users`: older checkpoints, and people who restore one, catch an error or delete the topic.
- `claims`: what is due at the end, and what penstock has said that has to be true.
- `judge`: what is done is committed, each input once, in order per key, nothing open or refused for ever.
- `decided`: which transactions the decision log names, so that no abort of one is overlooked.
- `planting`, `mutants`: bugs to plant in the sink. `bugs`: known bugs of Kafka, as switches of the model.
- `shrink`: leaves out faults of a history that fails, for as long as it fails.

Invariant: nothing here depends on the machine's time, on a socket, or on which thread is faster. Drivers are
threads, but one runs at a time, and only the plan says which (`tests.unit.turns`).
"""
