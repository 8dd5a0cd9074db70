"""Turn errors of brokers and of kafka-python into errors of penstock.

Runs on driver and executor. Invariant: every exception that leaves `penstock.client` is one of
`penstock.errors`; its message names the broker, the broker's own name for the error, and what to do.
"""

from __future__ import annotations

import re
from typing import Any

from kafka import errors as kafka_errors

from penstock.client.net._transport import TlsHandshakeError
from penstock.client.settings import ConnectionSettings
from penstock.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    ClientError,
    PenstockError,
    RequestTimeoutError,
    UnknownTopicOrPartitionError,
    UnsupportedBrokerError,
)

_AUTHENTICATION = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
    TlsHandshakeError,
)

_WHAT_TO_DO: dict[str, str] = {
    "InvalidReceiveError": (
        "The answer is not a Kafka response, or is larger than any limit. Check host, port and "
        "`security.protocol`: is this a TLS listener, or another service?"
    ),
    "TopicAuthorizationFailedError": ("Ask for READ (to write: WRITE) on the topic. Both include DESCRIBE."),
    "GroupAuthorizationFailedError": ("Ask for READ on the consumer group (only to look at it: DESCRIBE)."),
    "ClusterAuthorizationFailedError": "Ask for the cluster permission (IDEMPOTENT_WRITE, CREATE or ALTER).",
    "TransactionalIdAuthorizationFailedError": (
        "Ask for WRITE on the transactional id (only to look at it: DESCRIBE)."
    ),
    "SaslAuthenticationFailedError": "Check `sasl.jaas.config` (user and password) and `sasl.mechanism`.",
    "UnsupportedSaslMechanismError": "Set `sasl.mechanism` to one that the broker's listener offers.",
    "IllegalSaslStateError": "This listener does not use SASL: check `security.protocol` and the port.",
    "TlsHandshakeError": (
        "Check the truststore and keystore (`ssl.*`), the host name, and `security.protocol`."
    ),
}
_PROPERTY = re.compile(r"`([^`]*)`")


def is_retriable(error: PenstockError) -> bool:
    """Return whether the same request may succeed a moment later, perhaps on another broker."""
    return isinstance(error, (BrokerUnavailableError, RequestTimeoutError)) or bool(
        error.facts.get("is_retriable", False)
    )


def is_retriable_code(error_code: int) -> bool:
    """Return whether an error code (not 0) is temporary: the broker may answer otherwise a moment later."""
    return is_retriable(error_from_code(error_code, ""))


def error_from_code(error_code: int, where: str, detail: str | None = None, **facts: Any) -> PenstockError:
    """Return the penstock error for a broker's error code.

    Args:
        error_code: Kafka's number; not 0.
        where: the action and its object, e.g. "Creating topic orders".
        detail: the broker's own message, if it sent one.
        facts: values for programs (topic, partition, ...).
    """
    kind = kafka_errors.for_code(error_code)
    return _translate(kind, where, detail or kind.description or "", error_code, facts)


def error_from_exception(
    error: BaseException, where: str, *, property_prefix: str = "", **facts: Any
) -> PenstockError:
    """Return the penstock error for an exception of kafka-python.

    Args:
        error: the exception.
        where: the action and its object, e.g. "Creating topic orders".
        property_prefix: the prefix that the user writes before the names of Kafka's properties.
        facts: values for programs.
    """
    if isinstance(error, PenstockError):
        return error
    detail = " ".join(str(argument) for argument in error.args)
    return _translate(type(error), where, detail, getattr(error, "errno", None), facts, property_prefix)


def naming_principal(error: PenstockError, settings: ConnectionSettings) -> PenstockError:
    """Return an error about a missing right with the principal that lacks it; another error as it is."""
    if not isinstance(error, AuthorizationError) or "principal" in error.facts:
        return error
    principal = settings.principal
    if principal is None:
        return error
    return AuthorizationError(
        f"{error.message} The Kafka user is {principal}.", **error.facts, principal=principal
    )


def reason_of(error: BaseException, broker: str) -> str:
    """Return in a few words why a broker was not reached, without its address."""
    text = " ".join(str(argument) for argument in error.args).removeprefix(f"{broker}: ")
    return text.rstrip(".") or type(error).__name__


def _translate(
    kind: type[BaseException],
    where: str,
    detail: str,
    error_code: int | None,
    facts: dict[str, Any],
    property_prefix: str = "",
) -> PenstockError:
    shown = kind.__name__ + (f" ({error_code})" if error_code is not None else "")
    end = "" if detail.endswith("?") else "."
    text = f"{where} failed: {shown}" + (f": {detail.rstrip('.')}{end}" if detail else ".")
    if advice := _WHAT_TO_DO.get(kind.__name__):
        named = _PROPERTY.sub(lambda match: f"'{property_prefix}{match[1]}'", advice)
        text = f"{text} {named}"
    facts = {**facts, "kafka_error": kind.__name__, "error_code": error_code}
    return _penstock_kind(kind)(text, **facts, is_retriable=_is_retriable_kind(kind))


def _is_retriable_kind(kind: type[BaseException]) -> bool:
    return issubclass(kind, kafka_errors.RetriableError) and not issubclass(kind, _AUTHENTICATION)


def _penstock_kind(kind: type[BaseException]) -> type[ClientError]:
    for kafka_kinds, ours in _KINDS:
        if issubclass(kind, kafka_kinds):
            return ours
    return ClientError


_KINDS: tuple[tuple[tuple[type[BaseException], ...], type[ClientError]], ...] = (
    (_AUTHENTICATION, AuthenticationError),
    ((kafka_errors.AuthorizationError,), AuthorizationError),
    (
        (
            kafka_errors.UnknownTopicOrPartitionError,
            kafka_errors.UnknownTopicIdError,
            kafka_errors.InconsistentTopicIdError,
        ),
        UnknownTopicOrPartitionError,
    ),
    ((kafka_errors.RequestTimedOutError, kafka_errors.KafkaTimeoutError), RequestTimeoutError),
    ((kafka_errors.UnsupportedVersionError,), UnsupportedBrokerError),
    (
        (
            kafka_errors.KafkaConnectionError,
            kafka_errors.NodeNotReadyError,
            kafka_errors.UnknownBrokerIdError,
            kafka_errors.Cancelled,
            kafka_errors.BrokerNotAvailableError,
        ),
        BrokerUnavailableError,
    ),
)
