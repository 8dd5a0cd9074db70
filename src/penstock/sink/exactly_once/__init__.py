"""The exactly-once sink: what tasks write, what the driver decides, what recovery brings to an end.

docs/exactly-once-protocol.md explains the protocol and every moment at which something can die. Tasks
(executor) load `task_writer`, `open_transaction`, `committable`, `digest`, `mandate`,
`names`; all the rest is the driver's.
"""
