"""Arena jobs of ``echelon arena run``: prepare, start, resume and follow them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from echelon.arena.config import ArenaConfig
from echelon.config import EnvConfig
from echelon.jobs.config_layers import ConfigError, resolve
from echelon.jobs.launchers import parse_launcher
from echelon.jobs.spec import new_spec
from echelon.runs import RunNotFoundError, create_run
from echelon_cli import job
from echelon_cli.options import overrides_of, usage_errors

if TYPE_CHECKING:
    from echelon.arena.store import Store
    from echelon_cli.follow import Follower


def open_league(*, create: bool = False, read_only: bool = False) -> Store:
    """Open the league of the runs folder; ``read_only`` needs no write permission. ``StoreError`` if there is none."""
    from echelon.arena.store import Store, league_path

    return Store(league_path(), create=create, read_only=read_only)


def find_entry_id(store: Store, name: str) -> str:
    """Return the id of the entry that ``name`` matches; ``RunNotFoundError`` if there is none."""
    from echelon.arena.standings import find_entry
    from echelon.arena.store import StoreError

    try:
        return find_entry(store, name)
    except StoreError as error:
        raise RunNotFoundError(str(error)) from None


def start(
    store: Store,
    fields: dict[str, Any],
    only: Sequence[str],
    game: EnvConfig | None,
    processes: int,
    as_json: bool,
    *,
    queue: bool = False,
    notify: Sequence[str] = (),
) -> Follower | None:
    """Start a job with these fields of ``ArenaConfig`` and return its follower; without a seed it takes a fresh one.

    With ``queue`` the job is queued, and None is returned.
    """
    from echelon.arena.store import add_default_levels
    from echelon.jobs.observers import requested, write_observers

    add_default_levels(store)
    chosen = tuple(find_entry_id(store, name) for name in only)
    if fields["seed"] is None:
        fields["seed"] = len(store.periods())
    try:
        if launcher := fields.get("launcher"):
            parse_launcher(launcher)
        config = ArenaConfig(**fields, only=chosen)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    env = prepare(store, game)
    spec = new_spec("arena", {"preset": "arena", "arena": asdict(config), "env": env, "nproc": processes}, {})
    with usage_errors():
        observers = requested(notify)
    paths = create_run("arena")
    with job.kept_if_started(paths):
        write_observers(paths, observers)
    return job.start(paths, spec, queue=queue, as_json=as_json)


def game(preset: str | None, assignments: list[str] | None) -> EnvConfig | None:
    """Return the game that the options select, None if they select none."""
    if preset is None and not assignments:
        return None
    overrides = overrides_of(assignments)
    if other := [key for key in overrides if not key.startswith("env.")]:
        raise ConfigError(f"--set {other[0]} is no option of the game, expected a key that starts with env.")
    return resolve(preset, None, overrides).config.env


def prepare(store: Store, game: EnvConfig | None) -> dict[str, Any]:
    """Store the game of a new league and return the game that the league plays; ``ConfigError`` if they differ."""
    from echelon.arena.store import ENV_SETTING
    from echelon.validation import validated

    stored = store.init_setting(ENV_SETTING, asdict(game or resolve().config.env))
    if game is not None and validated(EnvConfig, stored) != game:
        raise ConfigError("the league already plays another game; ratings of two games cannot be compared")
    return stored


def resume(name: str, as_json: bool) -> Follower | None:
    """Resume a job that was stopped or killed."""
    paths, spec = job.find_job(name, "arena")
    return job.start(paths, spec, is_new=False, as_json=as_json)
