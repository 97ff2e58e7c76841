"""The ``echelon`` command: registers sub-commands and turns failures into one line and an exit code.

Importing this module loads neither torch nor Warp nor pydantic, which keeps help and completion fast.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.main import get_command

from echelon.files import error_text
from echelon_cli import coercion, output, spellings
from echelon_cli.help import Sections, describe_all
from echelon_cli.usage import usage_text

DEBUG_FLAG = "--debug"
HELP_ALL = "--help-all"
"""Shows the help of a command with all of its options and older spellings."""
HELP_ERROR = "NoArgsIsHelpError"
"""Name of the parser's error for a group without a command, whose message is the help; its class is private."""
COLLECT_EVERY = 50_000
"""Allocations between two collections of garbage."""
COMPLETION = "_ECHELON_COMPLETE"
"""Variable by which a shell asks for completions."""
COMPLETED_WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Variables in which bash, and other shells, give the command line that is completed."""


class Command(NamedTuple):
    """Where a command or group of the top level is."""

    section: str
    """Heading above it in the help; empty for an older spelling."""
    module: str
    """Module of ``echelon_cli.commands``."""
    function: str = "app"
    """Its function; ``app`` is the group."""


LEARN, WATCH, MANAGE, SIMULATE, MACHINE = "Train and evaluate", "Watch and play", "Manage", "Simulate", "This machine"

COMMANDS: dict[str, Command] = {
    "train": Command(LEARN, "train", "train"),
    "eval": Command(LEARN, "evaluate", "evaluate"),
    "sweep": Command(LEARN, "sweep"),
    "ablate": Command(LEARN, "ablate", "ablate"),
    "queue": Command(LEARN, "queue"),
    "demos": Command(LEARN, "demos"),
    "dash": Command(WATCH, "dash", "dash"),
    "watch": Command(WATCH, "serve", "watch"),
    "play": Command(WATCH, "play", "play"),
    "serve": Command(WATCH, "serve", "serve"),
    "replay": Command(WATCH, "replay"),
    "runs": Command(MANAGE, "runs"),
    "policy": Command(MANAGE, "policy"),
    "arena": Command(MANAGE, "arena"),
    "config": Command(MANAGE, "config"),
    "sim": Command(SIMULATE, "sim", "sim"),
    "world": Command(SIMULATE, "world"),
    "doctor": Command(MACHINE, "doctor", "doctor"),
    "bench": Command(MACHINE, "bench", "bench"),
    "jobs": Command("", "jobs", "jobs"),
    "stop": Command("", "stop", "stop"),
    "wait": Command("", "wait", "wait"),
    "logs": Command("", "logs", "logs"),
    "rm": Command("", "rm", "rm"),
    "heat": Command("", "heat", "heat"),
    "export": Command("", "export", "export"),
    "push": Command("", "hub", "push"),
    "pull": Command("", "hub", "pull"),
}
"""The top level, in the order of the help."""


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


class Root(Sections):
    """The top level, with its commands in the order of ``COMMANDS``."""

    order = tuple(COMMANDS)


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the app with these commands; only their modules are imported."""
    found = typer.Typer(
        name="echelon",
        cls=Root,
        help="Multi-agent reinforcement learning for mech combat in a destructible voxel world: train, evaluate, "
        "watch.",
        epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 stopped, 5 crashed. "
        f"Runs are stored in ./runs, or in $ECHELON_HOME. {HELP_ALL} shows every option of a command.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found.callback()(_options)
    for name in names:
        section, module, function = COMMANDS[name]
        target = getattr(import_module(f"echelon_cli.commands.{module}"), function)
        if isinstance(target, typer.Typer):
            found.add_typer(target, name=name, rich_help_panel=section)
        else:
            found.command(name, rich_help_panel=section, hidden=not section)(target)
    return found


def __getattr__(name: str) -> Any:
    """Return ``app``, the app with all commands."""
    if name == "app":
        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def narrowed(words: Sequence[str]) -> typer.Typer:
    """Return the app with the named command only: building the options of all takes most of a short command's time.

    Help and unknown names need all of them.
    """
    name = next((word for word in words if not word.startswith("-")), "")
    return application((name,) if name in COMMANDS else COMMANDS)


def completed_words() -> list[str]:
    """Return the words before the one that a shell completes; empty without completion."""
    line = next((text for name in COMPLETED_WORDS if (text := os.environ.get(name))), "")
    return line.split(" ")[1:-1] if COMPLETION in os.environ else []


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; print a failure as one line."""
    coercion.install()
    words, notices = spellings.current([word for word in argv if word != DEBUG_FLAG])
    as_json, debug, message = "--json" in words, DEBUG_FLAG in argv, ""
    for notice in [] if as_json else notices:
        output.show_notice(notice)
    try:
        if HELP_ALL in words:
            command, asked = get_command(narrowed(words)), [word if word != HELP_ALL else "--help" for word in words]
            describe_all(command, words)
            return command.main(asked, prog_name="echelon", standalone_mode=False) or output.DONE
        return narrowed(words or completed_words())(words, prog_name="echelon", standalone_mode=False) or output.DONE
    except typer.TyperException as error:
        if type(error).__name__ == HELP_ERROR:
            output.show_lines(error.format_message())
            return error.exit_code
        output.show_error(usage_text(error.format_message(), words, _called(error)), code=output.USAGE, as_json=as_json)
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
    output.show_error(message or error_text(failure) or "aborted", code=code, as_json=as_json)
    return code


def _called(error: typer.TyperException) -> str:
    """Return the command that a wrong command line calls, empty where the parser does not name it."""
    context = getattr(error, "ctx", None)
    return "" if context is None else context.command_path


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
