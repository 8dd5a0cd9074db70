"""Mounts that keep listings are found in the text of /proc/self/mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.state import mounts

TEXT = """\
/dev/sda1 / ext4 rw,relatime 0 0
server:/export /data nfs4 rw,vers=4.2,hard,proto=tcp 0 0
server:/export /data/current nfs rw,noac,hard 0 0
server:/export /data/zero nfs rw,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0 0 0
//server/share /my\\040share cifs rw,vers=3.1 0 0
ceph:/ /ceph ceph rw 0 0
bucket /bucket fuse.gcsfuse rw 0 0
mountpoint-s3 /s3 fuse rw 0 0
/dev/fuse /glued fuse.mergerfs rw 0 0
tmpfs /data/local tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/x", None),
        ("/data/x", ("/data", "nfs4")),
        ("/data", ("/data", "nfs4")),
        ("/database", None),
        ("/data/current/x", None),
        ("/data/zero/x", None),
        ("/data/local/x", None),
        ("/my share/x", ("/my share", "cifs")),
        ("/ceph/x", None),
        ("/bucket/x", ("/bucket", "fuse.gcsfuse")),
        ("/s3/x", ("/s3", "fuse")),
        ("/glued/x", None),
    ],
)
def test_the_mount_of_a_path(path: str, found: tuple[str, str] | None) -> None:
    assert mounts.mount_with_old_listings(path, TEXT) == found


def test_a_folder_on_such_a_mount_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, advice in (("nfs", "noac or actimeo=0"), ("fuse.s3fs", "the store's own URI")):
        file = tmp_path / kind
        file.write_text(f"x {tmp_path} {kind} rw 0 0\n")
        monkeypatch.setattr(mounts, "_MOUNTS", file)
        mounts._found.cache_clear()
        with pytest.raises(StateError, match=advice):
            mounts.check_listings(str(tmp_path / "state"))
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "missing")
    mounts._found.cache_clear()
    mounts.check_listings(str(tmp_path / "state"))
    mounts._found.cache_clear()
