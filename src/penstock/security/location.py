"""Show where something is without the credentials in its URI.

Runs anywhere. Pure. Invariant: what stands before the host, and the query, are never shown.
"""

from __future__ import annotations

from penstock.security.http import without_user


def without_secrets(location: str) -> str:
    """Return a location for messages: a URI without user, password and query; a path as it is."""
    if "://" not in location:
        return location
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{without_user(rest).partition('?')[0]}"
