"""Continuous execution: a long task that copies from topic to topic in short transactions. Internal.

`loop.py` decides, `task.py` talks to Kafka. docs/decisions/0013-continuous-tasks.md says on
what its promises rest.
"""
