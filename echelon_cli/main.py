"""The ``echelon`` command: registers sub-commands and turns failures into one line and an exit code.

Importing this module loads neither torch nor Warp nor pydantic, which keeps help and completion fast.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.commands import (
    ablate,
    arena,
    bench,
    config,
    dash,
    demos,
    doctor,
    evaluate,
    export,
    heat,
    jobs,
    logs,
    moments,
    replay,
    rm,
    runs,
    serve,
    sim,
    stop,
    train,
    wait,
    world,
)

ADVICE = {
    errno.ENOENT: "create it, or name another one",
    errno.ENOTDIR: "a part of its path is a file; name another one",
    errno.EEXIST: "delete it, or name another one",
    errno.EACCES: "change its permissions, or name another one",
    errno.EPERM: "change its permissions, or name another one",
    errno.EROFS: "name one on another disk",
    errno.ENOSPC: "free disk space and try again",
    errno.EDQUOT: "free disk space and try again",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
}
"""What helps, by the number of a system's error."""
DEBUG_FLAG = "--debug"
COLLECT_EVERY = 50_000
"""Allocations between two collections of garbage."""

app = typer.Typer(
    name="echelon",
    help="Multi-agent reinforcement learning for mech combat in a destructible voxel world: train, evaluate, watch.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 stopped, 5 crashed. "
    "Runs are stored in ./runs, or in $ECHELON_HOME.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("train")(train.train)
app.command("eval")(evaluate.evaluate)
app.command("heat")(heat.heat)
app.command("export")(export.export)
app.command("dash")(dash.dash)
app.command("jobs")(jobs.jobs)
app.command("stop")(stop.stop)
app.command("wait")(wait.wait)
app.command("logs")(logs.logs)
app.command("rm")(rm.rm)
app.add_typer(runs.app, name="runs")
replay.app.command("moments")(moments.moments)
replay.app.command("fit-winprob")(moments.fit_winprob)
app.add_typer(replay.app, name="replay")
app.add_typer(config.app, name="config")
app.add_typer(world.app, name="world")
app.command("sim")(sim.sim)
app.add_typer(arena.app, name="arena")
app.command("serve")(serve.serve)
app.command("watch")(serve.watch)
app.add_typer(demos.app, name="demos")
app.command("ablate")(ablate.ablate)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)


def _show_version(requested: bool) -> None:
    if requested:
        import echelon

        output.print_line(echelon.__version__)
        raise typer.Exit(output.DONE)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG_FLAG, help="Show a traceback on failure; accepted in any position.")
    ] = False,
) -> None:
    pass


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; print a failure as one line."""
    arguments = [word for word in argv if word != DEBUG_FLAG]
    as_json, debug, message = "--json" in arguments, len(arguments) < len(argv), ""
    try:
        return app(arguments, prog_name="echelon", standalone_mode=False) or output.DONE
    except typer.TyperException as error:
        output.show_error(error.format_message(), code=output.USAGE, as_json=as_json)
        return error.exit_code
    except typer.Abort as error:
        failure, code = error, output.FAILED
    except BrokenPipeError:
        # the reader closed the pipe: discard the rest, so that flushing at exit does not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.DONE
    except (ValueError, OSError) as error:
        failure, code = error, _code_of(error)
    except Exception as error:
        failure, code = error, output.FAILED
        message = f"internal error: {type(error).__name__}: {error}; try --debug for a traceback"
    if debug:
        output.show_traceback(failure)
        return code
    output.show_error(message or _text_of(failure) or "aborted", code=code, as_json=as_json)
    return code


def _text_of(failure: Exception) -> str:
    """Return the text of a failure; one that the system names begins with the file and ends with what helps."""
    if not isinstance(failure, OSError) or failure.errno is None or failure.filename is None:
        return str(failure)
    advice = ADVICE.get(failure.errno, "")
    return (
        f"{os.fsdecode(failure.filename)!r}: {(failure.strerror or 'system error').lower()}{advice and '; ' + advice}"
    )


def _code_of(failure: Exception) -> int:
    """Return the exit code of a failure; the exception types are imported only here."""
    from echelon.jobs.config_layers import ConfigError
    from echelon.runs import RunNotFoundError
    from echelon_cli.query import QueryError

    kinds = ((ConfigError, output.USAGE), (QueryError, output.USAGE), (RunNotFoundError, output.NOT_FOUND))
    return next((code for kind, code in kinds if isinstance(failure, kind)), output.FAILED)


def main() -> None:
    """Run the command line of this process and exit with its code."""
    # rows of a list live until the command ends: frequent collections take a fifth of its time and free nothing
    gc.set_threshold(COLLECT_EVERY)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # characters that the terminal cannot encode must not end a command
            stream.reconfigure(errors="replace")
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + 2)


if __name__ == "__main__":
    main()
