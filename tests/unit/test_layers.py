"""Each room of the package has a layer, so `make arch` holds for new rooms too."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "penstock"


def test_each_room_has_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    whole, of_sql = [each["layers"] for each in contracts if each["type"] == "layers"]
    for layers, package in ((whole, "penstock"), (of_sql, "penstock.sql")):
        named = {name.strip() for layer in layers for name in layer.split("|")}
        folder = PACKAGE.joinpath(*package.split(".")[1:])
        rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
        modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        assert named == {f"{package}.{name}" for name in rooms | modules}
