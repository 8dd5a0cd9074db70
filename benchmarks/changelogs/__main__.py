"""The command `python -m benchmarks.changelogs`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack, closing

from benchmarks import changelogs
from benchmarks.changelogs import decode, many_keys, normalize, sums
from benchmarks.changelogs.messages import FORMATS
from benchmarks.flink import FlinkSession
from benchmarks.measured import Measures
from benchmarks.systems import Bench, prepared

DECODE, NORMALIZE, SUMS, MANY_KEYS = QUESTIONS = ("decode", "normalize", "sums", "many-keys")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changelogs", description=changelogs.__doc__)
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, []], default=[], metavar="QUESTION")
    parser.add_argument("--rounds", type=int, default=3, help="of all systems in turn")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of the large state")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of each format")
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS, metavar="FORMAT")
    parser.add_argument("--events", type=int, default=normalize.EVENTS, help="over a tenth as many keys")
    arguments = parser.parse_args()
    normalize.EVENTS, normalize.KEYS = arguments.events, arguments.events // 10
    with ExitStack() as stack:
        spark, bootstrap_servers = stack.enter_context(prepared())
        flink = None
        if os.environ.get("FLINK", "0") not in {"", "0"}:
            flink = stack.enter_context(closing(FlinkSession(bootstrap_servers)))
        bench = Bench(spark, bootstrap_servers, "", "", 0, flink)
        for question in arguments.questions or QUESTIONS:
            for name, systems in _asked(bench, question, arguments).items():
                for system, figures in systems.items():
                    sys.stdout.write(json.dumps({name: {system: figures}}) + "\n")
            sys.stdout.flush()


def _asked(bench: Bench, question: str, arguments: argparse.Namespace) -> Measures:
    if question == DECODE:
        return decode.measure(bench, arguments.rounds, arguments.messages, _say, arguments.formats)
    if question == NORMALIZE:
        return {normalize.MEASURE: normalize.measure(bench, arguments.rounds)}
    if question == SUMS:
        return {sums.MEASURE: sums.measure(bench.spark, arguments.rounds)}
    return {many_keys.MEASURE: many_keys.measure(bench.spark, arguments.keys)}


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
