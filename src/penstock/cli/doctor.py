"""`penstock doctor`: check a cluster before a query runs on it.

Runs on any machine that reaches the brokers, best on the driver's. Invariant: changes nothing in Kafka.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connecting import ClusterName, CommandConfig, OptionalServers, find_cluster

if TYPE_CHECKING:
    from penstock.doctor.facts import Facts
    from penstock.doctor.gather import Subjects


def doctor(  # noqa: PLR0913, PLR0917 - each is an option of the command
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic that the query reads; or writes, without --target. May be repeated."),
    ] = None,
    group: Annotated[str | None, typer.Option(help="The consumer group that the query commits to.")] = None,
    prefix: Annotated[str | None, typer.Option(help="The query's sink.transactional-id-prefix.")] = None,
    log_topic: Annotated[
        str | None, typer.Option("--log-topic", help="The query's sink.commit-log.topic, if it has one.")
    ] = None,
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous",
            help="Check what a continuous query needs: --topic is its source, --group is required.",
        ),
    ] = False,
    target: Annotated[
        list[str] | None,
        typer.Option(help="A topic that the query writes, or that of its dead letters. May be repeated."),
    ] = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start a Spark session and look at its workers' Python.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check brokers, login, rights and settings. Ends with 0 (good), 1 (warnings) or 2 (something is bad)."""
    from penstock.doctor.findings import as_json as findings_as_json  # noqa: PLC0415 - lazy
    from penstock.doctor.findings import bad, exit_code  # noqa: PLC0415 - lazy
    from penstock.doctor.gather import gather  # noqa: PLC0415 - lazy
    from penstock.doctor.judge import judge  # noqa: PLC0415 - lazy
    from penstock.errors import OptionError  # noqa: PLC0415 - lazy

    try:
        cluster = find_cluster(bootstrap_server, name, command_config)
        subjects = _subjects(topic, group, prefix, log_topic, target, is_continuous=continuous)
        facts = gather(cluster.properties, subjects)
        if cluster.name is not None:
            facts = replace(facts, servers=str(cluster))
        if spark:
            facts = _with_workers(facts)
        findings = judge(facts)
    except OptionError as error:
        findings = [bad("options", error.message, "")]
    if as_json:
        typer.echo(json.dumps(findings_as_json(findings)))
    else:
        for finding in findings:
            typer.echo(str(finding))
    raise typer.Exit(exit_code(findings))


def _subjects(
    topic: list[str] | None,
    group: str | None,
    prefix: str | None,
    log_topic: str | None,
    target: list[str] | None,
    *,
    is_continuous: bool,
) -> Subjects:
    from penstock.doctor.gather import Subjects  # noqa: PLC0415 - lazy
    from penstock.errors import MissingOptionError, OptionError  # noqa: PLC0415 - lazy

    topics, targets = tuple(topic or ()), tuple(target or ())
    if not is_continuous:
        return Subjects(topics, group, prefix, log_topic, targets)
    if group is None:
        raise MissingOptionError(
            "--continuous needs --group: the offsets of this consumer group are the state of the query.",
            option="--group",
        )
    if log_topic is not None:
        raise OptionError(
            "A continuous query has no decision log. Leave --log-topic out.", option="--log-topic"
        )
    return Subjects(topics, group, prefix, targets=targets, is_continuous=True)


def _with_workers(facts: Facts) -> Facts:
    from penstock._pyspark import check_pyspark  # noqa: PLC0415 - lazy
    from penstock.doctor.gather import worker_facts  # noqa: PLC0415 - lazy

    try:
        check_pyspark()
        from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

        session = SparkSession.builder.appName("penstock doctor").getOrCreate()
        try:
            return replace(facts, workers=worker_facts(session))
        finally:
            session.stop()
    except Exception as error:  # noqa: BLE001 - Spark has many ways to say that a job failed
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return replace(facts, workers_error=lines[-1] if lines else type(error).__name__)
