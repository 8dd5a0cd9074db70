"""Continuous execution: long tasks that copy from topic to topic in short transactions. Internal.

`loop.py` decides, `task.py` talks to Kafka. `driver.py` plans, on the driver, and `supervisor.py` keeps a job
alive. docs/decisions/0013-continuous-tasks.md and 0014-continuous-driver.md say on what the promises rest.
"""
