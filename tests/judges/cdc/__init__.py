"""Changelog formats judged by Flink: the messages, the tables that read and write them, Flink's answers.

`FLINK=1 python -m tests.judges.cdc` asks a real Flink and writes tests/data/cdc. It needs Java, and installs
apache-flink once for the user. `tests/unit/formats/test_flink_judge.py` compares penstock with the answers.
"""
