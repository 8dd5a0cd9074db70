"""The command line: `penstock`.

Runs on the driver's machine. Invariant: this module needs the core of penstock only. The commands are in
`app.py`, and need the extra `cli`. Without it `penstock extras` tells what is missing, and each other command
ends with a sentence that says so and the status 2: to start it again would not help.
"""

from __future__ import annotations

import sys

from penstock.extras import MISSING_EXTRA, lacking, needs, overview


def main() -> None:
    """Run the command line (the console script `penstock`)."""
    if not lacking("cli"):
        from penstock.cli.app import run  # noqa: PLC0415 - needs the extra

        run()
    elif sys.argv[1:] == ["extras"]:
        sys.stdout.write(f"{overview()}\n")
    else:
        sys.stderr.write(f"penstock: This command {needs('cli')} `penstock extras` lists all extras.\n")
        raise SystemExit(MISSING_EXTRA)
