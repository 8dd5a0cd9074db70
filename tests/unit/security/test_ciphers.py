"""Java's names of cipher suites, and that no other suite is used."""

from __future__ import annotations

import ssl

import pytest

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.options.config import KafkaProperties
from penstock.security.tls import TLS_1_3_SUITES, TlsSettings, openssl_name, tls_settings

OLD = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


def settings_of(suites: str, versions: str = "TLSv1.2,TLSv1.3") -> TlsSettings:
    items = {"ssl.cipher.suites": suites, "ssl.enabled.protocols": versions}
    return tls_settings(KafkaProperties(tuple(sorted(items.items()))))


def names(context: ssl.SSLContext) -> set[str]:
    return {str(cipher["name"]) for cipher in context.get_ciphers()} - set(TLS_1_3_SUITES)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        (OLD, "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    context = settings_of(java).ssl_context()
    assert names(context) == {openssl}
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2, "no suite of TLS 1.3 was named"


def test_suites_of_tls_1_3() -> None:
    context = settings_of(",".join(TLS_1_3_SUITES)).ssl_context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    both = settings_of(",".join([OLD, *TLS_1_3_SUITES])).ssl_context()
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(UnsupportedOptionError, match=r"cannot choose among the cipher suites of TLS 1.3"):
        settings_of(f"TLS_AES_256_GCM_SHA384,{OLD}")
    assert settings_of(f"TLS_AES_256_GCM_SHA384,{OLD}", "TLSv1.2").maximum_version == "TLSv1.2"


@pytest.mark.parametrize(
    "text", ["ECDHE-RSA-AES256-GCM-SHA384", "TLS_RSA_WITH_RC4_128_MD5", "ALL:@SECLEVEL=0"]
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="names of cipher suites as Java has them"):
        settings_of(text)


def test_suites_and_versions_that_exclude_each_other() -> None:
    with pytest.raises(OptionError, match=r"has no cipher suite for 'ssl.enabled.protocols' = 'TLSv1.3'"):
        settings_of(OLD, "TLSv1.3")
