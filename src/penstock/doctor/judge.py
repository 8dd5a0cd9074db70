"""Judge facts: each check turns facts into findings.

Pure. Invariant: whatever could not be found out is a finding too, and never good.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from penstock.doctor._broker_bugs import broker_bug_findings
from penstock.doctor._continuous import continuous_findings, group_findings
from penstock.doctor._exactly_once import prefix_findings, timeout_findings
from penstock.doctor._topics import holder_findings, topic_findings
from penstock.doctor.facts import BrokerFacts, ClockFacts, Facts, GroupFacts, PythonFacts, SparkFacts
from penstock.doctor.findings import Finding, bad, good, note, warning

_EXPIRES_SOON = timedelta(days=30)
_CLOCK_WARNING_MS = 5_000
_CLOCK_BAD_MS = 300_000
_SAME_EVERYWHERE = ("pyspark-penstock", "pyarrow", "pyspark")


def judge(facts: Facts) -> list[Finding]:
    return list(_findings(facts))


def _findings(facts: Facts) -> Iterator[Finding]:
    yield from _this_process(facts)
    yield from _certificate(facts)
    if facts.connect_error:
        yield bad("connection", facts.connect_error, "Nothing else could be checked.")
    else:
        yield good("connection", f"{facts.servers} answered to {facts.login}.")
    for broker in facts.brokers:
        yield from broker_findings(broker, facts.now)
    yield from _topics(facts)
    if facts.prefix is not None or facts.continuous is not None:
        yield from broker_bug_findings(facts.brokers)
    if facts.continuous is not None:
        yield from group_findings(facts.continuous)
        yield from continuous_findings(facts, facts.continuous)
    elif facts.group is not None:
        yield group_finding(facts.group)
    if facts.prefix is not None:
        yield from prefix_findings(facts.prefix, facts.now, len(facts.brokers))
        configs = [broker.config for broker in facts.brokers if not broker.error]
        yield from timeout_findings(configs, facts.wanted_timeout_ms)
    if facts.clock is not None:
        yield clock_finding(facts.clock)
    if facts.workers_error:
        advice = "Does the executors' Python have PySpark's own needs, such as PyArrow?"
        yield bad("Spark workers", f"the job that asks them failed: {facts.workers_error}", advice)
    elif facts.driver is not None and facts.workers is not None:
        yield from worker_findings(facts.driver, facts.workers)


def _topics(facts: Facts) -> Iterator[Finding]:
    brokers = len(facts.brokers)
    is_source, is_target = facts.group is not None, facts.prefix is not None and not facts.targets
    for topic in facts.topics:
        yield from topic_findings(topic, broker_count=brokers, is_source=is_source, is_target=is_target)
        yield from holder_findings(topic, facts.now)
    for target in facts.targets:
        yield from topic_findings(target, broker_count=brokers, is_source=False, is_target=True)
        yield from holder_findings(target, facts.now)


def _this_process(facts: Facts) -> Iterator[Finding]:
    if facts.driver is not None:
        yield good("this process", _versions(facts.driver))
    if facts.spark is not None:
        yield spark_finding(facts.spark)


def spark_finding(spark: SparkFacts) -> Finding:
    """Judge the PySpark of this process."""
    if spark.error:
        return warning("PySpark", spark.error, "The command line works without it.")
    if spark.missing:
        lost = " ".join(spark.missing)
        return note("PySpark", f"{spark.found}. With it: {lost}", "See docs/spark-versions.md.")
    return good("PySpark", f"{spark.found}. It has all that penstock uses.")


def _certificate(facts: Facts) -> Iterator[Finding]:
    if facts.certificate_expires_at is not None:
        yield _expiry("client certificate", facts.certificate_expires_at, facts.now)


def _expiry(subject: str, expires_at: datetime, now: datetime) -> Finding:
    day = f"{expires_at:%Y-%m-%d}"
    if expires_at <= now:
        return bad(subject, f"it expired on {day}.", "Install a new certificate.")
    if expires_at - now < _EXPIRES_SOON:
        return warning(subject, f"it expires on {day}.", "Install a new one before that day.")
    return good(subject, f"it is valid until {day}.")


def broker_findings(broker: BrokerFacts, now: datetime) -> Iterator[Finding]:
    """Judge one broker: its address, its certificate, the login."""
    subject = f"broker {broker.node_id} ({broker.address})"
    if broker.tls is not None and broker.tls.error:
        yield bad(
            f"{subject} TLS",
            broker.tls.error,
            "Check the broker's certificate, its host names, and the trust store ('ssl.truststore.*').",
        )
    elif broker.tls is not None and broker.tls.expires_at is not None:
        yield _expiry(f"{subject} TLS certificate", broker.tls.expires_at, now)
    if broker.is_login_refused:
        yield bad(subject, broker.error, "This broker refuses the login that another one took.")
    elif broker.error:
        yield bad(
            subject,
            f"it cannot be reached at its advertised address: {broker.error}",
            "Check 'advertised.listeners' of the broker, DNS and firewalls between it and this machine.",
        )
    else:
        yield good(subject, f"it answers at its advertised address, as Kafka {broker.kafka_version or '?'}.")


def group_finding(group: GroupFacts) -> Finding:
    """Judge the consumer group."""
    subject = f"consumer group {group.group_id}"
    if group.error:
        return bad(subject, group.error, "")
    if group.may_describe is False or group.may_read is False:
        return bad(
            subject,
            "the user lacks the right READ on it, so the query cannot commit offsets.",
            "Grant READ on the consumer group, or set 'commit.offsets.on.checkpoint' to 'false'.",
        )
    if group.member_count:
        return bad(
            subject,
            f"it is in use by {group.member_count} consumers that subscribe with this group id. Only "
            "they may commit offsets.",
            "Give the query a group id of its own.",
        )
    return good(subject, "no consumer is a member of it.")


def clock_finding(clock: ClockFacts) -> Finding:
    """Judge the difference of the clocks. A difference within the precision counts as none."""
    subject = "clock"
    if clock.difference_ms is None:
        advice = "Grant DESCRIBE on the cluster to let the doctor compare the clocks."
        return warning(subject, f"it could not be compared: {clock.error}", advice)
    size_ms = max(0, abs(clock.difference_ms) - clock.precision_ms)
    side = "ahead of" if clock.difference_ms > 0 else "behind"
    text = f"the cluster's clock is {abs(clock.difference_ms)} ms {side} this machine's."
    advice = "Set both by NTP. Tokens, certificates, timestamps and retention depend on the clocks."
    if size_ms >= _CLOCK_BAD_MS:
        return bad(subject, text, advice)
    if size_ms >= _CLOCK_WARNING_MS:
        return warning(subject, text, advice)
    return good(subject, text)


def worker_findings(driver: PythonFacts, workers: tuple[PythonFacts, ...]) -> Iterator[Finding]:
    """Compare the Python of Spark's workers with this one."""
    if not workers:
        yield warning("Spark workers", "none answered.", "Is the session able to run a job?")
    for worker in workers:
        subject = f"Spark worker {worker.where}"
        problems = list(_differences(driver, worker))
        if worker.packages.get("pyspark-penstock") is None:
            yield bad(subject, "penstock is not installed there.", "Install it where the executors run.")
        elif problems:
            advice = "Install the same versions on the driver and on the executors."
            yield bad(subject, f"it differs from this process: {'; '.join(problems)}.", advice)
        else:
            yield good(subject, _versions(worker))


def _differences(driver: PythonFacts, worker: PythonFacts) -> Iterator[str]:
    if driver.python.rsplit(".", 1)[0] != worker.python.rsplit(".", 1)[0]:
        yield f"Python {worker.python}, here {driver.python}"
    for name in _SAME_EVERYWHERE:
        there, here = worker.packages.get(name), driver.packages.get(name)
        if there != here:
            yield f"{name} {there or 'missing'}, here {here or 'missing'}"


def _versions(process: PythonFacts) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in process.packages.items() if version)
    return f"Python {process.python}, {packages}."
