"""Show where something is without the credentials in its URI.

Runs anywhere. Pure. Invariant: what stands before the host, and the query, are never shown.
"""

from __future__ import annotations


def without_secrets(location: str) -> str:
    """Return a location for messages: a URI without user, password and query; a path as it is."""
    if "://" not in location:
        return location
    scheme, _, rest = location.partition("://")
    rest = rest.partition("?")[0]
    place, slash, path = rest.partition("/")
    port = place.partition(":")[2]
    if "@" not in place and port and not port.isdigit():  # a password with an unescaped "/"
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"
