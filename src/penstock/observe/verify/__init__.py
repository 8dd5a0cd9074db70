"""`penstock verify`: prove from receipts and topics that each record was written once, or name what differs.

Runs on any machine that reaches the brokers. `_read` reads logs, `_written` compares the target with the
receipts, `_inputs` compares what was read with what was written, `_rows` finds the rows that differ, `check`
does all of it. Nothing is changed in Kafka.

Invariants: PROVEN is said only of what was read again and compared. What retention, compaction, an open
transaction or a topic that was created again hides, and what no receipt names, is NOT_PROVABLE and never a
difference. Memory does not grow with the number of records, but with that of the receipts and of their
transactions.
"""
