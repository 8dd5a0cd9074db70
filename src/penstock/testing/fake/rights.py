"""Users of a fake cluster, and what they may do.

Runs in tests only. Invariant: a cluster without ACLs allows everything to everybody, as Kafka without an
authorizer does. With ACLs nothing is allowed that none of them grants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

ANONYMOUS = "ANONYMOUS"

_ALL_OPERATIONS = {
    "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12,
}  # fmt: skip
_IMPLIED_BY = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
}
_OF_KIND = {
    "TOPIC": ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "GROUP": ("READ", "DELETE", "DESCRIBE"),
    "CLUSTER": (
        "CREATE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ),
    "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE"),
}
CLUSTER_NAME = "kafka-cluster"


@dataclass(frozen=True)
class Acl:
    """A right that a user has.

    Args:
        user: the user; "*" means all users.
        operation: "READ", "WRITE", "DESCRIBE", ... or "ALL".
        kind: "TOPIC", "GROUP", "TRANSACTIONAL_ID" or "CLUSTER".
        name: of the resource; "*" means all of its kind. For the cluster "kafka-cluster".
        is_prefix: the name is the beginning of the names that are meant.
    """

    user: str
    operation: str
    kind: str
    name: str
    is_prefix: bool = False

    def allows(self, user: str, operation: str, kind: str, name: str) -> bool:
        """Return whether this grants an operation."""
        operations = {operation, "ALL", *_IMPLIED_BY.get(operation, ())}
        is_named = self.name in ("*", name) or (self.is_prefix and name.startswith(self.name))
        return self.user in ("*", user) and self.operation in operations and self.kind == kind and is_named


@dataclass
class Rights:
    """Who may log in, and who may do what.

    Args:
        passwords: of the users of SASL PLAIN. Empty: no one needs to log in.
        acls: None: everything is allowed.
        super_users: may do everything.
    """

    passwords: Mapping[str, str] = field(default_factory=dict)
    acls: list[Acl] | None = None
    super_users: Collection[str] = ()

    def allow(self, user: str, operation: str, kind: str, name: str) -> bool:
        """Return whether a user may do this."""
        if self.acls is None or user in self.super_users:
            return True
        return any(acl.allows(user, operation, kind, name) for acl in self.acls)

    def allow_any(self, user: str, operation: str, kind: str) -> bool:
        """Return whether a user may do this with some resource of a kind."""
        if self.acls is None or user in self.super_users:
            return True
        return any(acl.allows(user, operation, kind, acl.name) for acl in self.acls)

    def operations(self, user: str, kind: str, name: str) -> set[int]:
        """Return the operations that a user may do with a resource, by Kafka's numbers."""
        return {_ALL_OPERATIONS[each] for each in _OF_KIND[kind] if self.allow(user, each, kind, name)}
