"""penstock on each PySpark: `make versions`, or `python -m tests.versions 4.0.1 4.3.0`.

Each environment is made from the built wheel and one PySpark only, but for `make older`. The probe runs its
cases there against one real broker. An independent read_committed consumer says what the cases have written.
Without --case, what came of them goes into docs/spark-versions.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.devbroker import DevCluster
from penstock.devbroker.jars import KAFKA_VERSION
from tests.fix_broker import NEVER_FENCED, START_TIMEOUT_S
from tests.versions import kills, results, speed
from tests.versions.environments import (
    ROOT,
    NoIndexError,
    build_wheel,
    cheap_environment,
    environment,
    kafka_home,
)
from tests.versions.run import MOVED, Found, Run, moved, say

VERSIONS = ("4.0.1", "4.1.4", "4.2.1", "4.3.0")
KINDS = ("classic", "connect")
QUICK_LIMIT_S = 90
"""How long `make older` may make environments. If it takes longer, the cases are skipped."""
QUICK: dict[str, tuple[str, ...]] = {
    "4.0.1": (
        "limit with processingTime",
        "a planned batch comes again",
        "aggregate",
        "sql batch",
        "group offsets",
    ),
    # What differs between the two: the class of a stream's writer, and how progress shows offsets.
    "4.1.4": ("limit with processingTime", "a planned batch comes again"),
}
"""The cases of `make older`. Both versions run at the same time: `make ci` has a minute for them."""


def main(arguments: Sequence[str]) -> int:
    """Run the cases. Return 1 if one of them is wrong."""
    given = _parsed(arguments)
    try:
        pythons = _environments(given)
    except NoIndexError as error:
        say(f"Skipped: the environments of {', '.join(given.versions)} need an index of packages. {error}")
        return 0 if given.quick else 1
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        if given.speed:
            speed.run(pythons, given.records, given.rounds)
        elif given.kills is not None:
            for version, python in pythons.items():
                kills.run(version, python, Path(folder), given.kills, given.seed, given.seconds)
        else:
            for kafka in given.kafka or [KAFKA_VERSION]:
                wrong += _on_kafka(kafka, given, pythons, Path(folder))
    say(f"{len(wrong)} are wrong: {'; '.join(wrong)}" if wrong else "All is right.")
    return bool(wrong)


def _environments(given: argparse.Namespace) -> dict[str, Path]:
    """Return the Python of each version."""
    made: Callable[[str], Path]
    if given.quick:

        def made(version: str) -> Path:
            return cheap_environment(given.environments / f"cheap-{version}", version, QUICK_LIMIT_S)

    else:
        wheel = given.wheel or build_wheel(given.environments)
        more = speed.NEEDED if given.speed else ()

        def made(version: str) -> Path:
            name = f"{version}-{Path(given.python).name}" if given.python else version
            base = given.python or sys.executable
            return environment(given.environments / name, version, wheel, *more, base=base)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(given.versions, pool.map(made, given.versions), strict=True))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv" / "versions")
    parser.add_argument("--wheel", type=Path, help="an own wheel; without it, one is built")
    parser.add_argument("--python", help="of the environments, e.g. python3.13; without it, this one")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument(
        "--kafka", action="append", help=f"the version of the broker; without it {KAFKA_VERSION}"
    )
    parser.add_argument("--quick", action="store_true", help="the few cases of `make older`; skipped offline")
    parser.add_argument("--kills", type=int, help="run no case, but kill an exactly-once copy so often")
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="kill no more at random after so long"
    )
    parser.add_argument("--speed", action="store_true", help="run no case, but measure reads and writes")
    parser.add_argument("--records", type=int, default=4_000_000, help="of the measures")
    parser.add_argument("--rounds", type=int, default=5, help="of the measures")
    given = parser.parse_args(arguments)
    if given.quick:
        given.versions, given.kind = tuple(QUICK), ["classic"]
        given.case = [name for names in QUICK.values() for name in names]
    return given


def _on_kafka(kafka: str, given: argparse.Namespace, pythons: dict[str, Path], folder: Path) -> list[str]:
    wrong = []
    with (
        kafka_home(kafka),
        DevCluster(properties=NEVER_FENCED, start_timeout_s=START_TIMEOUT_S) as cluster,
    ):
        (folder / kafka).mkdir()

        def judged(key: results.Key) -> Found:
            title = f"{key.pyspark} {key.kind}"
            run = Run(cluster.bootstrap_servers, title, key.kind, folder / kafka)
            cases = QUICK[key.pyspark] if given.quick else given.case
            return run.judged(pythons[key.pyspark], key.pyspark, cases)

        keys = [results.Key(version, kind, kafka) for version in pythons for kind in given.kind or KINDS]
        if given.case == [MOVED]:
            keys = []
        with ThreadPoolExecutor(len(QUICK) if given.quick else 1) as pool:
            for key, found in zip(keys, pool.map(judged, keys), strict=True):
                wrong += found.wrong
                if not given.case:
                    results.keep(key, found, pythons[key.pyspark])
        if len(pythons) > 1 and (not given.case or MOVED in given.case):
            path = [*pythons.items(), *reversed(list(pythons.items())[:-1])]
            wrong += moved(cluster.bootstrap_servers, path, folder / kafka)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
