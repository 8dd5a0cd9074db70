"""OpenLineage's events of a streaming query.

`datasets` names the topics, `run` follows a query, `events` makes the events, `outbox` sends them. Needs
`openlineage-python` (the extra `lineage`). Runs in the user's program. Invariant: a query never fails or
waits because of its lineage.
"""
