"""Requests that change or describe topics: CreateTopics, DeleteTopics, CreatePartitions, DescribeConfigs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._state import TOPIC_DEFAULTS, Call, Topic
from penstock.testing.fake._wire import Fields

_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NAMES_IDS = 6
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_OF_TOPIC, _OF_BROKER, _DEFAULT = 1, 4, 5
"""Where a setting comes from."""
_STRING = 2


def create_topics(call: Call) -> Fields:
    """Create topics, or only check whether that is possible."""
    answers = []
    for asked in call.body.topics:
        code, text = _creation_problem(call, asked)
        replicas = {each.partition_index: list(each.broker_ids) for each in asked.assignments}
        count = len(replicas) or asked.num_partitions
        if count < 1:
            count = int(call.state.properties["num.partitions"])
        fields: dict[str, Any] = {"name": asked.name, "error_code": code, "error_message": text or None}
        if not code:
            configs = {each.name: each.value for each in asked.configs}
            fields |= {
                "num_partitions": count,
                "replication_factor": _replication(call, asked.replication_factor),
            }
            if not call.body.validate_only:
                fields["topic_id"] = call.state.create_topic(asked.name, count, configs, replicas).topic_id
        answers.append(fields)
    call.state.changed.notify_all()
    return {"topics": answers}


def _replication(call: Call, asked: int) -> int:
    known = min(int(call.state.properties["default.replication.factor"]), len(call.state.nodes))
    return known if asked < 1 else asked


def _creation_problem(call: Call, asked: Any) -> tuple[int, str]:
    may = call.may("CREATE", "CLUSTER") or call.may("CREATE", "TOPIC", asked.name)
    problems = {
        call.refused_with: "refused by the test",
        0 if may else codes.TOPIC_AUTHORIZATION_FAILED: "Authorization failed.",
        0
        if _is_legal(asked.name)
        else codes.INVALID_TOPIC_EXCEPTION: f"Topic name is invalid: {asked.name!r}",
        codes.TOPIC_ALREADY_EXISTS
        if asked.name in call.state.topics
        else 0: f"Topic '{asked.name}' already exists.",
        codes.INVALID_PARTITIONS
        if asked.num_partitions == 0
        else 0: "Number of partitions must be larger than 0.",
        codes.INVALID_REPLICATION_FACTOR
        if asked.replication_factor == 0 or asked.replication_factor > len(call.state.nodes)
        else 0: "Unable to replicate the partition: not enough brokers.",
    }
    return next(((code, text) for code, text in problems.items() if code), (0, ""))


def _is_legal(name: str) -> bool:
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def delete_topics(call: Call) -> Fields:
    """Delete topics by name or by id."""
    body = call.body
    asked: list[tuple[str | None, Any]] = (
        [(each.name, each.topic_id) for each in body.topics]
        if call.version >= _NAMES_IDS
        else [(name, None) for name in body.topic_names]
    )
    answers = []
    for name, topic_id in asked:
        found = call.state.topic_of(name, topic_id if name is None else None)
        known = found.name if isinstance(found, Topic) else name
        code = call.missing("DELETE", "TOPIC", known or "") or (found if isinstance(found, int) else 0)
        if not code and isinstance(found, Topic):
            call.state.delete_topic(found)
        ids = {"topic_id": found.topic_id if isinstance(found, Topic) else topic_id}
        answers.append({"name": known, "error_code": code, **(ids if ids["topic_id"] else {})})
    return {"responses": answers}


def create_partitions(call: Call) -> Fields:
    """Raise the numbers of partitions."""
    answers = []
    for asked in call.body.topics:
        found = call.state.topics.get(asked.name)
        code = call.missing("ALTER", "TOPIC", asked.name)
        if not code:
            code = codes.UNKNOWN_TOPIC_OR_PARTITION if found is None else 0
        if found is not None and not code:
            code = codes.INVALID_PARTITIONS if asked.count <= len(found.partitions) else 0
            if not code and not call.body.validate_only:
                call.state.add_partitions(found, asked.count)
        answers.append({"name": asked.name, "error_code": code})
    call.state.changed.notify_all()
    return {"results": answers}


def describe_configs(call: Call) -> Fields:
    """Return settings of topics and brokers."""
    return {"results": [_described(call, each) for each in call.body.resources]}


def _described(call: Call, asked: Any) -> Fields:
    code, configs = _settings(call, asked.resource_type, asked.resource_name)
    wanted = asked.configuration_keys
    return {
        "error_code": code,
        "error_message": None,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
        "configs": [
            {
                "name": name, "value": value, "read_only": False, "config_source": source,
                "is_sensitive": False, "synonyms": [], "config_type": _STRING, "documentation": None,
            }
            for name, (value, source) in sorted(configs.items())
            if wanted is None or name in wanted
        ],
    }  # fmt: skip


def _settings(call: Call, kind: int, name: str) -> tuple[int, Mapping[str, tuple[str, int]]]:
    """Return each setting of a resource with its source, or an error code."""
    if kind == _TOPIC_RESOURCE:
        topic = call.state.topics.get(name)
        code = call.missing("DESCRIBE_CONFIGS", "TOPIC", name)
        if code or topic is None:
            return code or codes.UNKNOWN_TOPIC_OR_PARTITION, {}
        defaults = {key: (value, _DEFAULT) for key, value in TOPIC_DEFAULTS.items()}
        return 0, defaults | {key: (value, _OF_TOPIC) for key, value in topic.configs.items()}
    if kind != _BROKER_RESOURCE:
        return codes.INVALID_REQUEST, {}
    if code := call.missing("DESCRIBE_CONFIGS", "CLUSTER"):
        return code, {}
    return 0, {key: (value, _OF_BROKER) for key, value in call.state.properties.items()}
