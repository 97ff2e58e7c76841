"""The ``echelon`` command: the table of its commands; a failure becomes one line and an exit code.

Importing this module loads neither torch nor Warp nor pydantic, which keeps help and completion fast.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from echelon.files import error_text, open_standard_streams, write_fault
from echelon.jobs.leave import leave
from echelon_cli import output
from echelon_cli.help import Command, LazyRoot

DEBUG_FLAG = "--debug"
HELP_ERROR = "NoArgsIsHelpError"
"""Name of the parser's error for a group without a command, whose message is the help; its class is private."""

TRAIN, LABORATORY, LEAGUE, DATA, MACHINE = "Train and watch", "Laboratory", "League", "Data", "This machine"

COMMANDS: dict[str, Command] = {
    "train": Command(TRAIN, "Start a training run, or resume one, and follow it.", "train", "train"),
    "eval": Command(TRAIN, "Play a policy against scripted levels or another policy.", "evaluate", "evaluate"),
    "dash": Command(TRAIN, "Show all runs, or one run, live in the terminal.", "dash", "dash"),
    "watch": Command(TRAIN, "Open a match in the browser.", "serve", "watch"),
    "play": Command(TRAIN, "Fly a mech yourself, in the browser.", "play", "play"),
    "serve": Command(TRAIN, "Serve the viewer and all replays.", "serve", "serve"),
    "runs": Command(TRAIN, "Runs: list, compare, follow, stop, queue, label, export, delete.", "runs"),
    "sweep": Command(LABORATORY, "Search hyper-parameters, or compare ablations.", "sweep"),
    "redteam": Command(LABORATORY, "Train attackers against a policy: how exploitable is it?", "redteam", "redteam"),
    "sim": Command(LABORATORY, "Play matches between policies or levels, without training.", "sim", "sim"),
    "world": Command(LABORATORY, "Generate a map, measure and draw it.", "world", "world"),
    "bench": Command(LABORATORY, "Measure the speed of this machine.", "bench", "bench"),
    "results": Command(LABORATORY, "Reference results, and their repetition.", "results"),
    "config": Command(LABORATORY, "Configuration fields, their values and their sources.", "config"),
    "arena": Command(LEAGUE, "The league: rounds between policies and levels, ratings.", "arena"),
    "compete": Command(LEAGUE, "Competitions: hidden maps, ratings, a board that anyone can check.", "compete"),
    "agent": Command(LEAGUE, "Agents: programs in any language that play.", "agent"),
    "policy": Command(DATA, "Export a policy, or exchange it with the Hugging Face Hub.", "policy"),
    "demos": Command(DATA, "Demonstrations: record what pilots do, and imitate it.", "demos"),
    "replay": Command(DATA, "Recorded matches: list, describe, export, branch, verify.", "replay"),
    "web": Command(DATA, "The game as static files for a browser.", "web"),
    "doctor": Command(MACHINE, "Check that this machine can train, play and serve.", "doctor", "doctor"),
}  # fmt: skip
"""The top level, in the order of the help. Add a command of the top level as a row; one of a group in its module."""


class Root(LazyRoot):
    """The commands of ``COMMANDS``."""

    table = COMMANDS


def _show_version(requested: bool) -> None:
    if requested:
        import echelon

        output.print_line(echelon.__version__)
        raise typer.Exit(output.DONE)


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG_FLAG, help="Show a traceback on failure; accepted in any position.")
    ] = False,
) -> None:
    pass


def root() -> Root:
    """Return the top level, without any command imported."""
    app = typer.Typer(
        name="echelon",
        cls=Root,
        help="Multi-agent reinforcement learning for mech combat in a destructible voxel world: train, evaluate, "
        "watch.",
        epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 stopped, 5 crashed. "
        "Runs are stored in ./runs, or in $ECHELON_HOME.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    command = get_command(app)
    assert isinstance(command, Root)
    return command


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; print a failure as one line."""
    words = [word for word in argv if word != DEBUG_FLAG]
    as_json, debug, message = "--json" in words, DEBUG_FLAG in argv, ""
    try:
        return root()(words, prog_name="echelon", standalone_mode=False) or output.DONE
    except typer.TyperException as error:
        if type(error).__name__ == HELP_ERROR:
            output.show_lines(error.format_message())
        else:
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


def _text_of(failure: BaseException) -> str:
    """Return a failure as a message; a full disk that no file is named for may be that of the output."""
    if isinstance(failure, OSError) and failure.filename is None and failure.errno in (errno.ENOSPC, errno.EDQUOT):
        try:
            os.write(sys.stdout.fileno(), b"\n")
        except OSError as error:
            return write_fault("standard output", error)
    return error_text(failure)


def _code_of(failure: Exception) -> int:
    """Return the exit code of a failure; the exception types are imported only here."""
    from echelon.jobs.config_layers import ConfigError
    from echelon.runs import RunNotFoundError
    from echelon_cli.query import QueryError

    kinds = ((ConfigError, output.USAGE), (QueryError, output.USAGE), (RunNotFoundError, output.NOT_FOUND))
    return next((code for kind, code in kinds if isinstance(failure, kind)), output.FAILED)


def main() -> None:
    """Run the command line of this process and exit with its code."""
    open_standard_streams()
    # the matrices of a command are small: threads wait for one another, up to a hundred times as long beside other work
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # characters that the terminal cannot encode must not end a command
            stream.reconfigure(errors="replace")
    try:
        os.getcwd()
        code = run(sys.argv[1:])
    except FileNotFoundError:
        # libraries cannot be loaded either
        output.show_error("the working folder was deleted; change to another one", code=output.FAILED)
        code = output.FAILED
    except KeyboardInterrupt:
        code = 128 + 2
    leave(code)


if __name__ == "__main__":
    main()
