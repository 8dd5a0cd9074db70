"""A real broker that stops answering after a batch is decided: the error, and what happens to the batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from penstock.errors import DecidedError
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX
from tests.fault_proxy import proxies_for, route
from tests.kafka.sink_driver import QUERY, SinkUnderTest, assert_none_open, assert_seen, expected


@contextmanager
def silent_from(step: Step, bootstrap: str) -> Iterator[None]:
    """Requests get no answer from this step on."""
    (proxy,) = proxies_for(bootstrap)

    def observer(reached: Step) -> None:
        if reached is step:
            proxy.hold()

    with proxy, route(proxy):
        observe(observer)
        try:
            yield
        finally:
            observe(None)


@pytest.mark.parametrize("query_id", [QUERY, f"{BATCH_WRITE_PREFIX}w", f"{NAMED_WRITE_PREFIX}w"])
def test_no_answer_after_the_decision(bootstrap: str, sink: SinkUnderTest, query_id: str) -> None:
    sink.query_id = query_id
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 0)
    settings = replace(sink.settings, default_api_timeout_ms=3_000, request_timeout_ms=1_500)
    impatient = replace(sink, settings=settings)
    with silent_from(Step.DECIDED, bootstrap), impatient.driver() as committing:
        command = rf"recover --prefix {sink.prefix} --bootstrap-server \S+ --yes"
        with pytest.raises(DecidedError, match=command) as raised:
            committing.commit(reports)
        assert ("Do not run it again" in raised.value.message) == query_id.startswith(BATCH_WRITE_PREFIX)
    with sink.driver() as driver:
        driver.recover()
    assert_none_open(sink)
    assert_seen(bootstrap, sink.topic, expected(1))
