"""SASL settings in kafka-python's terms.

Runs where a connection is opened.
"""

from __future__ import annotations

from typing import Any

from penstock.security.kerberos import KerberosLogin
from penstock.security.oauth import OAuthLogin, PythonToken
from penstock.security.settings import SaslSettings


def sasl_kwargs(sasl: SaslSettings | None) -> dict[str, Any]:
    """Return keyword arguments for kafka-python's `KafkaConnectionManager`."""
    if sasl is None:
        return {}
    if isinstance(sasl, OAuthLogin):
        from penstock.client._token_provider import TokenProvider  # noqa: PLC0415 - few connections need it

        return {"sasl_mechanism": sasl.mechanism, "sasl_oauth_token_provider": TokenProvider(sasl)}
    if isinstance(sasl, KerberosLogin):
        # `client.net` puts a context in the place of the login before it logs in.
        return {"sasl_mechanism": sasl.mechanism, "sasl_kerberos_name": sasl}
    username = sasl.username
    if sasl.mechanism.startswith("SCRAM-"):
        # RFC 5802: these two are signs of the message itself. kafka-python sends the name as it is.
        username = username.replace("=", "=3D").replace(",", "=2C")
    if sasl.is_delegation_token:
        from penstock.client._delegation_token import TokenId  # noqa: PLC0415 - few connections need it

        username = TokenId(username)
    return {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": username,
        "sasl_plain_password": sasl.password,
    }


def check_login(sasl: SaslSettings | None) -> None:
    """Find on the driver what each login would fail with, without connecting.

    Raises:
        OptionError: a function, a package or a file of the options is not there.
    """
    if isinstance(sasl, KerberosLogin):
        from penstock.security.tickets import check_kerberos  # noqa: PLC0415 - few need it

        check_kerberos(sasl)
    if isinstance(sasl, OAuthLogin) and isinstance(sasl.source, PythonToken):
        from penstock.security.token_sources import load_function  # noqa: PLC0415 - few need it

        load_function(sasl.source)
