"""Make the server.properties and log settings of a broker of the development cluster.

Pure; runs where the cluster is started. Invariant: a property given by the user wins. Properties that the
cluster depends on are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import DevBrokerError

HOST = "127.0.0.1"
CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"

# These name a broker and its addresses; another value would break the cluster.
_OURS = frozenset(
    {
        "process.roles", "node.id", "broker.id", "controller.quorum.voters",
        "controller.quorum.bootstrap.servers", "controller.listener.names",
        "listeners", "advertised.listeners", "inter.broker.listener.name", "security.inter.broker.protocol",
        "listener.security.protocol.map", "log.dir", "log.dirs", "metadata.log.dir",
    }
)  # fmt: skip

# Kafka's defaults are for production; here tests wait for each of these times.
_FAST = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    # Records of a test or of a trial may have old timestamps. Kafka would delete them within this second.
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "2",
    "broker.heartbeat.interval.ms": "300",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

LOG4J2 = """\
rootLogger.level = INFO
rootLogger.appenderRefs = console
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
"""


@dataclass(frozen=True)
class NodeAddress:
    """The ports of one broker by listener name, CONTROLLER among them."""

    node_id: int
    ports: Mapping[str, int]


def check_user_properties(properties: Mapping[str, str]) -> None:
    """Refuse properties that the cluster sets by itself."""
    refused = sorted(_OURS & set(properties))
    if refused:
        raise DevBrokerError(
            f"The development broker sets {', '.join(refused)} itself. Leave them out; give further "
            "listeners as `listeners` and the folder as `data_dir`.",
            properties=refused,
        )


def server_properties(
    address: NodeAddress,
    cluster: list[NodeAddress],
    log_dir: Path,
    listeners: Mapping[str, str],
    properties: Mapping[str, str],
) -> dict[str, str]:
    """Return all server properties of one node."""
    check_user_properties(properties)
    replication = len(cluster)
    min_insync = 2 if replication > 1 else 1
    protocols = {CONTROLLER_LISTENER: "PLAINTEXT", CLIENT_LISTENER: "PLAINTEXT", **listeners}
    urls = {name: f"{name}://{HOST}:{address.ports[name]}" for name in protocols}
    own = {
        "process.roles": "broker,controller",
        "node.id": str(address.node_id),
        "controller.quorum.voters": ",".join(
            f"{node.node_id}@{HOST}:{node.ports[CONTROLLER_LISTENER]}" for node in cluster
        ),
        "controller.listener.names": CONTROLLER_LISTENER,
        "inter.broker.listener.name": CLIENT_LISTENER,
        "listeners": ",".join(urls.values()),
        "advertised.listeners": ",".join(url for name, url in urls.items() if name != CONTROLLER_LISTENER),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "log.dirs": str(log_dir),
    }
    replicated = {
        "default.replication.factor": str(replication),
        "min.insync.replicas": str(min_insync),
        "offsets.topic.replication.factor": str(replication),
        "transaction.state.log.replication.factor": str(replication),
        "transaction.state.log.min.isr": str(min_insync),
        "share.coordinator.state.topic.replication.factor": str(replication),
        "share.coordinator.state.topic.min.isr": str(min_insync),
        # A killed broker may join again only after its old session has ended. With three brokers a session
        # that is too short would move leaders whenever the machine is busy.
        "broker.session.timeout.ms": "4000" if replication > 1 else "1500",
        "broker.rack": f"rack-{address.node_id}",
    }
    fast = dict(_FAST)
    if properties.keys() & {"log.retention.hours", "log.retention.minutes"}:
        del fast["log.retention.ms"]  # Kafka would take it before these
    return {**fast, **replicated, **properties, **own}


def render_properties(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file (ASCII, with Java's escapes)."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in properties.items())


def parse_properties(text: str) -> dict[str, str]:
    """Read the simple properties files that Kafka writes (meta.properties: no escapes, no continuation)."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _escape(text: str, *, is_key: bool = False) -> str:
    escaped = []
    for index, character in enumerate(text):
        if character in "\\#!" or (is_key and character in ":= ") or (index == 0 and character == " "):
            escaped.append("\\" + character)
        elif character in "\n\r\t":
            escaped.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character])
        elif " " <= character <= "~":
            escaped.append(character)
        else:
            utf16 = character.encode("utf-16-be")
            escaped += [f"\\u{utf16[at : at + 2].hex()}" for at in range(0, len(utf16), 2)]
    return "".join(escaped)
