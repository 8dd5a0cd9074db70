"""A Kafka cluster in this process, on real sockets, for tests: `FakeKafka`.

Runs in tests only. A file for each group of requests (`_api_*.py`); `_apis.py` lists them.

    _server.py    sockets and threads
    _dispatch.py  bytes -> request -> what a test has ordered (control.py) -> handler -> answer -> bytes
    _wire.py      the protocol, by kafka-python's classes
    _state.py     brokers, topics, rights, time
    _log.py       the log of a topic partition; _batches.py its record batches; _coordinator.py transactions
"""
