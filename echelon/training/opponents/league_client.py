"""A run's connection to the league: it reads opponents and submits snapshots at the league's desk.

Rank 0 asks the desk; all ranks take what it read. Opponents are sampled by ``league_source``.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from echelon.arena.config import ArenaConfig
from echelon.arena.desk import LeagueDesk, Submission
from echelon.arena.league import League
from echelon.arena.ray_league import RayCalls, RemoteDesk
from echelon.arena.store import league_path
from echelon.arena.submit import signature_of
from echelon.config import RunConfig
from echelon.config.opponents import CLUSTER
from echelon.config.seeds import EVAL_SEED_BASE, folded
from echelon.files import error_text
from echelon.rl.build import FlatPolicy
from echelon.runs import RunPaths
from echelon.telemetry.events import Event, EventAlert, EventLeague
from echelon.training.opponents.league_source import LeagueSource
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.weights import exported_policy

LEAGUE_ERRORS = (OSError, ValueError, KeyError)
"""Raised if a league cannot be read or no longer contains the target."""


def open_desk(path: str, run_dir: os.PathLike[str] | None) -> LeagueDesk | RemoteDesk | None:
    """Return the desk of ``opponents.league.path``; None without that and a run folder."""
    if path == CLUSTER:
        return RemoteDesk(RunPaths(Path(run_dir or ".")).policies, RayCalls())
    if path or run_dir is not None:
        return LeagueDesk(Path(path).absolute() if path else league_path(Path(run_dir or ".").parent))
    return None


class LeagueClient:
    """One run in one league."""

    def __init__(
        self,
        config: RunConfig,
        desk: LeagueDesk | RemoteDesk | None,
        source: LeagueSource,
        runner: OpponentRunner,
        group: ProcessGroup,
        *,
        device: torch.device,
        threads: int,
    ) -> None:
        if desk is None:
            raise ValueError("run_dir is None, expected a run folder; a league needs one, or opponents.league.path")
        self.config, self.desk, self.source, self.runner, self.group = config, desk, source, runner, group
        self.device, self.threads = device, threads
        self.options = config.opponents.league
        self.is_lost = False
        """Whether the league was out of reach when it was asked last."""
        source.locate = desk.locate
        self._refreshes = 0

    def join(self, game: dict[str, Any]) -> None:
        """Read the league, created if missing; raise ``ValueError`` if it plays another game than the run.

        ``game`` has ``obs_dim``, ``action_dim`` and ``env_cfg``.
        """
        if self.group.is_main:
            self.desk.join(signature_of(game))
        self.refresh()

    def refresh(self) -> None:
        """Update the opponent source from the league; an error of rank 0 is raised on all ranks."""
        read = self.group.broadcast(self._read() if self.group.is_main else None)
        if isinstance(read, Exception):
            raise read
        assert read is not None
        league, results = read
        self.is_lost = False
        self.source.update_from(League.from_dict(league), self.runner.names, results)

    def _read(self) -> tuple[dict[str, Any], dict[str, list[int]]] | Exception:
        try:
            return self.desk.read(self.source.run)
        except LEAGUE_ERRORS as error:
            return error

    def refresh_opponents(self) -> None:
        """Read the league again, for the episodes that begin from now on.

        If the league cannot be read, or lost the target, the previous opponents stay and a notice says so.
        """
        try:
            self.refresh()
        except LEAGUE_ERRORS as error:
            self.source.notices += self._report(
                "league could not be read again, its previous entries stay opponents", error
            )

    def _report(self, text: str, error: Exception) -> list[str]:
        """Return the message of an error; none if the league was out of reach already."""
        was_lost, self.is_lost = self.is_lost, isinstance(error, ConnectionError)
        return [] if was_lost and self.is_lost else [f"{text}: {error_text(error)}"]

    def set_episodes(self, episodes: int) -> None:
        """Count refreshes from this number of episodes, after a resume."""
        self._refreshes = episodes // self.options.refresh_episodes

    def refresh_if_due(self, episodes: int) -> None:
        """Read the league again if ``refresh_episodes`` more episodes have ended."""
        before, self._refreshes = self._refreshes, episodes // self.options.refresh_episodes
        if self._refreshes > before:
            self.refresh_opponents()

    def submits_at(self, update: int) -> bool:
        """Return whether this run submits a snapshot after ``update``; an exploiter submits only at its end."""
        every = self.options.submit_every_updates
        return bool(every) and update % every == 0 and self.source.target is None

    def take_notices(self) -> list[str]:
        """Return and clear the notices of the source."""
        notices = self.source.notices.copy()
        self.source.notices.clear()
        return notices

    def submit(self, policy: FlatPolicy, manifest: dict[str, Any], should_stop: Callable[[], bool]) -> list[Event]:
        """Submit a policy with the manifest of a checkpoint, have it rated, and return the events; on rank 0 only.

        A league that cannot be written skips the submission with an alert.
        """
        began = time.perf_counter()
        position = {"update": manifest["update"], "global_step": manifest["global_step"]}
        submission = self._submission(policy, manifest)
        try:
            facts, warnings = self.desk.submit(submission, should_stop)
            self.is_lost = False
        except ConnectionError as error:
            facts, warnings = None, self._report("snapshot could not be submitted to the league", error)
        events: list[Event] = []
        if facts is not None:
            fields: dict[str, Any] = {**position, **facts, "target": submission.target}
            if submission.target:
                fields["target_win_rate"] = self.source.target_win_rate
            fields |= {"pool": self.source.pool, "retired": self.source.retired}
            events.append(EventLeague(**fields, duration_s=time.perf_counter() - began))
        return events + [EventAlert(message=text, **position) for text in warnings]

    def _submission(self, policy: FlatPolicy, manifest: dict[str, Any]) -> Submission:
        run, target, update = self.source.run, self.source.target, manifest["update"]
        facts: dict[str, Any] = {"run": run, "update": update, "global_step": manifest["global_step"]}
        if target is not None:
            facts |= {"win_rate": self.source.target_win_rate, "beaten": self.source.target_is_beaten}
        return Submission(
            run=run,
            update=update,
            policy=exported_policy(policy, manifest),
            kind="candidate" if target is None else "exploiter",
            target=target or "",
            facts=facts,
            retired=self.source.exploiters,
            env=self.config.env,
            matches=self._matches(update) if self.options.match_opponents else None,
        )

    def _matches(self, update: int) -> ArenaConfig:
        """Return the matches that rate a snapshot."""
        o = self.options
        return ArenaConfig(
            scheme="skill",
            opponents=o.match_opponents,
            seeds=o.match_seeds,
            seed=folded(self.config.seed, EVAL_SEED_BASE) + update,
            device=str(self.device),
            threads=self.threads,
            cache=o.cache,
            most_upsets=0,
            promote_top=o.promote_top,
            conservatism=o.conservatism,
            keep_top=o.keep_top,
        )
