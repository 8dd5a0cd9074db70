"""`penstock sql`: run scripts of Flink's SQL, or type statements at a prompt.

Runs on the driver's machine. Invariant: the scripts are read as a whole before Spark starts. The exit status
is 0 if all jobs have ended well, or have stopped after their batches because of SIGTERM; 1 if one failed; 2
for a mistake in a script or its options; 130 after Ctrl-C; 143 if a batch was cut off because of SIGTERM.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic as _clock_s
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.spark.stop_on_signal import SAME_S
from penstock.sql.shell import Format

if TYPE_CHECKING:
    from penstock.sql.shell.run import Shell, StoppedError

_TERMINATED = 128 + signal.SIGTERM
_LOCAL_TASKS = "4"
_note = partial(typer.echo, err=True)

STOPPING_S = 10.0
"""After so long another signal counts again."""


def sql(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Scripts, which run one after another. Without any: a prompt, or standard input.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each query would run, and start none of them.")
    ] = False,
    format: Annotated[
        Format,
        typer.Option(help="How rows are shown. auto: a table on a terminal, else lines such as +I[1, a]."),
    ] = Format.AUTO,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", help="An option of Spark as key=value, e.g. spark.master=local[4]."),
    ] = None,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare",
            help="Prepare Spark's classes once for this user, so that later starts take less time.",
        ),
    ] = False,
    stop_timeout: Annotated[
        float,
        typer.Option(
            min=0,
            help="How many seconds the jobs have to end their batches after Ctrl-C or SIGTERM. Then they "
            "are stopped at once.",
        ),
    ] = 60,
) -> None:
    """Run scripts of Flink's SQL on Spark, and wait for their jobs. Needs the extra `sql`."""
    from penstock.sql import Session as _  # noqa: F401, PLC0415 - says which extra is missing

    if prepare:
        _prepare()
        return
    texts = _texts(files or [])
    with _statuses():
        from penstock.sql.language.parse import parse_script  # noqa: PLC0415 - lazy

        for text in texts or ():
            parse_script(text)
    # PySpark logs the message that the user sees a second time, as JSON with its traceback.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    # Ctrl-C interrupts a call of Py4J, which logs the interruption with a traceback.
    logging.getLogger().addFilter(_is_no_interruption)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if texts is None:
        typer.echo("Starting Spark ...")
    with _statuses():
        spark, is_ours = _spark(conf or [])
    if is_ours and hasattr(spark, "sparkContext"):
        _handle_ctrl_c(is_script=texts is not None)
        if texts is None:  # the prompt tells in one line what fails, and Java's traces would hide that line
            spark.sparkContext.setLogLevel("OFF")
    try:
        _run(spark, texts, format, explain=explain, stop_timeout_ms=round(stop_timeout * 1000))
    finally:
        if is_ours:
            _stop(spark)


def _prepare() -> None:
    """Make the archive of Spark's classes, and say where it is."""
    from penstock.cli.quick_start.classes import make_archive  # noqa: PLC0415 - lazy

    with _statuses():
        typer.echo(f"Spark's classes are prepared: {make_archive()}")


def _handle_ctrl_c(*, is_script: bool) -> None:
    """Replace PySpark's handler, whose call of Spark breaks a connection on which another call is open."""
    if is_script:
        Interrupts().install()
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(spark: Any) -> None:
    """Stop Spark. A query that Ctrl-C has cut off while it started is stopped before, or it fails loudly."""
    with suppress(Exception):  # Spark may have ended, which PySpark says in many ways
        for query in spark.streams.active:
            query.stop()
    with _java_may_have_ended():
        spark.stop()


@contextmanager
def _java_may_have_ended() -> Iterator[None]:
    """Leave out what fails because the Java process of Spark has ended: there is nothing left to clear up.

    An error that came before is not hidden by the same error again.
    """
    from penstock.spark.java_process import is_of_ended_java  # noqa: PLC0415 - lazy

    try:
        yield
    except Exception as error:
        if not is_of_ended_java(error):
            raise


def _texts(files: list[Path]) -> list[str] | None:
    """Return the scripts; None for the prompt."""
    if files:
        return [_text_of(path) for path in files]
    return None if sys.stdin.isatty() else [sys.stdin.read()]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"the script {path} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}. "
            "Nothing was started. Save it as UTF-8."
        ) from None


@contextmanager
def _statuses() -> Iterator[None]:
    """Show the message of an error and end with its status."""
    from penstock.sql.shell.run import FINISHED, StoppedError, failures  # noqa: PLC0415 - lazy

    try:
        with failures():
            yield
    except StoppedError as error:
        if error.status != FINISHED:
            typer.secho(f"penstock: {error}", fg="red", err=True)
        else:
            _note(str(error))
        raise typer.Exit(error.status) from None


def _spark(conf: list[str]) -> tuple[Any, bool]:
    """Return the session of Spark, and whether it was started here."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    from penstock.cli.quick_start import importing  # noqa: PLC0415 - lazy
    from penstock.cli.quick_start.classes import use_archive  # noqa: PLC0415 - lazy

    is_ours = SparkSession.getActiveSession() is None
    builder: Any = SparkSession.builder
    for each in conf:
        key, separator, value = each.partition("=")
        if not separator:
            raise typer.BadParameter(f"expected key=value, got {each!r}", param_hint="--conf")
        builder = builder.config(key, value)
    if is_ours:
        use_this_python(conf)
        builder = builder.appName("penstock sql").config("spark.ui.showConsoleProgress", "false")
        use_archive()
    with importing():
        spark = builder.getOrCreate()
    if is_ours and hasattr(spark, "sparkContext"):
        from penstock.spark.java_process import mute_end_of_java  # noqa: PLC0415 - lazy

        spark.sparkContext.setLogLevel("ERROR")
        mute_end_of_java(spark.sparkContext)
        _use_few_tasks(spark)
    return spark, is_ours


def _use_few_tasks(spark: Any) -> None:
    """Give each shuffle of a Spark on this machine few tasks, unless the user has chosen a number.

    Spark's default of 200 tasks is for a cluster. Here they would take seconds in each micro-batch. The
    number does not depend on the machine, because the states of operators are divided by it.
    """
    context, option = spark.sparkContext, "spark.sql.shuffle.partitions"
    if context.master.startswith("local") and context.getConf().get(option) is None:
        spark.conf.set(option, _LOCAL_TASKS)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    return "while sending command" not in record.getMessage()


def _run(spark: Any, texts: list[str] | None, shown: Format, *, explain: bool, stop_timeout_ms: int) -> None:
    from penstock.sql.run.session import Session  # noqa: PLC0415 - lazy
    from penstock.sql.shell.run import Shell  # noqa: PLC0415 - lazy
    from penstock.sql.shell.select import Output  # noqa: PLC0415 - lazy

    with _statuses():
        session = Session(spark, typer.echo)
        shell = Shell(session, Output(typer.echo, shown, sys.stdout.isatty()), _note)
        try:
            if texts is None:
                from penstock.sql.shell.prompt import run_prompt  # noqa: PLC0415 - needs prompt_toolkit

                run_prompt(shell, explain=explain, stop_timeout_ms=stop_timeout_ms)
                return
            for text in texts:
                shell.run(text, explain=explain)
            shell.wait(session.jobs)
        except KeyboardInterrupt as signal_:
            raise _stopped(shell, signal_, stop_timeout_ms) from None
        finally:
            with _java_may_have_ended():
                session.stop()


def _stopped(shell: Shell, came: KeyboardInterrupt, timeout_ms: int) -> StoppedError:
    """Stop the jobs after their batches, unless another signal comes, and return how the command ends."""
    from penstock.spark.java_process import connect_again  # noqa: PLC0415 - lazy
    from penstock.sql.shell.run import FINISHED, INTERRUPTED, StoppedError  # noqa: PLC0415 - lazy

    is_cut_off = True
    with suppress(KeyboardInterrupt), _java_may_have_ended():  # a signal to all processes ends Java at once
        if hasattr(shell.session.spark, "sparkContext"):
            connect_again(shell.session.spark.sparkContext)
        is_cut_off = not shell.stop_after_batch(timeout_ms)
    if isinstance(came, Termination):
        return StoppedError(shell.stopped(is_cut_off=is_cut_off), _TERMINATED if is_cut_off else FINISHED)
    return StoppedError(shell.stopped(is_cut_off=is_cut_off), INTERRUPTED)


_PYTHON = "PYSPARK_PYTHON"
_ADDED = "spark.executorEnv."


def use_this_python(conf: Sequence[str], environment: MutableMapping[str, str] = os.environ) -> None:
    """Set PYSPARK_PYTHON to the Python of `spark.pyspark.python`, or to this one if Spark is on this machine.

    Only spark-submit reads that option. Otherwise Spark starts the first `python3` of PATH, which has no
    penstock if its virtual environment is not activated.
    """
    from penstock.cli.quick_start.python import quick_python  # noqa: PLC0415 - lazy

    options = dict(each.partition("=")[::2] for each in conf)
    is_set = _PYTHON in environment or f"{_ADDED}{_PYTHON}" in options
    if named := options.get("spark.pyspark.python"):
        environment[_PYTHON] = named
    elif not is_set and _is_local(options, environment):
        added = [each.removeprefix(_ADDED) for each in options if each.startswith(_ADDED)]
        environment[_PYTHON] = quick_python(added)


def _is_local(options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    if "spark.remote" in options or environment.keys() & {"SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "MASTER"}:
        return False
    if "spark.master" in options:
        return options["spark.master"].split("[")[0] == "local"
    folders = (environment.get("SPARK_CONF_DIR"), _conf_folder(environment.get("SPARK_HOME")))
    return not any(folder and Path(folder, "spark-defaults.conf").exists() for folder in folders)


def _conf_folder(home: str | None) -> str | None:
    return None if home is None else str(Path(home, "conf"))


class Termination(KeyboardInterrupt):
    """A supervisor has asked the command to end (SIGTERM)."""


class Interrupts:
    """A handler of SIGINT and SIGTERM that raises KeyboardInterrupt or Termination.

    The first signal asks the command to stop after the batch, the second one to stop at once. A signal that
    comes while queries are stopped at once does not cut that off, because Spark would end below them.
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []

    def install(self) -> None:
        """Make this the handler of the process."""
        signal.signal(signal.SIGINT, self)
        signal.signal(signal.SIGTERM, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise the first and the second time, and then once in `STOPPING_S`."""
        now_s = _clock_s()
        if self._times_s and now_s - self._times_s[-1] < (SAME_S if len(self._times_s) == 1 else STOPPING_S):
            return
        self._times_s.append(now_s)
        raise Termination if number == signal.SIGTERM else KeyboardInterrupt
