"""Show where something is without the credentials in its URI.

Runs anywhere. Pure. Invariant: what stands before the host, and the query, are never shown. That also holds
if a slash of `://` is missing.
"""

from __future__ import annotations

import re

from penstock.security.http import without_user

_SCHEME = re.compile("(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/?(?=[^/])")
_URL_WITH_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/'\"?#]*@")
_URL_WITH_QUERY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s'\"?]*)\?[^\s'\"]*")


def without_secrets(location: str) -> str:
    """Return a location for messages: a URI without user, password and query; a path as it is."""
    if "://" not in location:
        found = _SCHEME.match(location)
        if found is None or "@" not in location:
            return location
        return found[0] + location[found.end() :].rpartition("@")[2]
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{without_user(rest).partition('?')[0]}"


def without_secrets_in(text: str) -> str:
    """Return the message of a library with its URLs without user, password and query."""
    return _URL_WITH_QUERY.sub(r"\1", _URL_WITH_USER.sub(r"\1", text))
