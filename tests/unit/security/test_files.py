"""Files by path, or by the bare name under which Spark has sent them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import OptionError
from penstock.options.config import KafkaProperties
from penstock.security.files import find_file, read_file, search_sent_files
from penstock.security.references import resolved_text
from penstock.security.tls import tls_settings

CA = (Path(__file__).parents[2] / "data" / "tls" / "ca.pem").read_bytes()


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of files that Spark has sent; Spark puts it on the module search path."""
    folder, elsewhere = tmp_path / "sent", tmp_path / "work"
    for each in (folder, elsewhere):
        each.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.syspath_prepend(folder)
    (folder / "ca.pem").write_bytes(CA)
    return folder


def test_a_bare_name_is_found(sent: Path) -> None:
    assert read_file("ca.pem", "k") == CA
    assert find_file("ca.pem") == sent / "ca.pem"
    items = (("ssl.truststore.location", "ca.pem"),)
    assert tls_settings(KafkaProperties(items)).trusted_certificates is not None
    (sent / "secrets.properties").write_text("password = horse")
    assert resolved_text("${file:secrets.properties:password}", "k") == "horse"


@pytest.fixture
def _folders_of_before() -> Iterator[None]:
    yield
    search_sent_files(())


@pytest.mark.usefixtures("_folders_of_before")
def test_folders_that_spark_names_come_before_the_module_search_path(sent: Path, tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.mkdir()
    search_sent_files([str(tmp_path / "not-there"), str(named)])
    assert find_file("ca.pem") == sent / "ca.pem"
    (named / "ca.pem").write_bytes(b"nearer")
    assert read_file("ca.pem", "k") == b"nearer"
    with pytest.raises(OptionError) as caught:
        read_file("other.pem", "k")
    folders = (
        f"in the working folder '{Path.cwd()}', in Spark's folders of sent files ('{tmp_path}/not-there', "
    )
    assert f"It was looked for {folders}'{named}'), and on the module search path." in str(caught.value)
    with pytest.raises(OptionError) as caught:
        read_file("/other.pem", "k")
    assert "looked for" not in str(caught.value), "a path names one folder"


def test_the_working_folder_comes_first(sent: Path) -> None:
    Path("ca.pem").write_bytes(b"nearer")
    assert read_file("ca.pem", "k") == b"nearer"


@pytest.mark.parametrize("location", ["./ca.pem", "sent/ca.pem", "missing.pem", "", "\0"])
def test_other_names_are_paths(sent: Path, location: str) -> None:
    with pytest.raises(OptionError, match=r"Option 'k': the file '.*' cannot be read here"):
        read_file(location, "k")
