"""A run's connection to the league: it reads opponents, submits snapshots and has them rated by matches.

Submitted policies lie beside the league, where they outlive the run. A submission is rated by matches against entries
of near rating, played into the league as an arena job would play them, so that a crash neither loses nor duplicates
one. Rank 0 reads, writes and plays; all ranks take what it read. Opponents are sampled by ``league_source``.
"""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from echelon.arena.config import ArenaConfig
from echelon.arena.league import League, LeagueEntry
from echelon.arena.rounds import RoundCallbacks, play_rounds
from echelon.arena.standings import RETIRED, matches, pair_results, rating_shift, standings
from echelon.arena.store import FOLDER, Store, add_default_levels, league_path
from echelon.arena.submit import league_env_config, signature_of, submit
from echelon.config import RunConfig
from echelon.config.seeds import EVAL_SEED_BASE, folded
from echelon.files import error_text, make_folder
from echelon.rl.build import FlatPolicy
from echelon.runs import RunPaths
from echelon.telemetry.events import Event, EventAlert, EventLeague
from echelon.training.opponents.league_source import LeagueSource, run_entries
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.weights import export_policy_weights

SIDES = ("blue", "red")
WIN, DRAW, LOSS = 1.0, 0.5, 0.0
"""Score of a match."""
LEAGUE_ERRORS = (OSError, ValueError, KeyError)
"""Raised if a league cannot be read or no longer contains the target."""


class LeagueClient:
    """One run in one league."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: os.PathLike[str] | None,
        source: LeagueSource,
        runner: OpponentRunner,
        group: ProcessGroup,
        *,
        device: torch.device,
        threads: int,
    ) -> None:
        self.config, self.run_dir, self.source, self.runner, self.group = config, run_dir, source, runner, group
        self.device, self.threads = device, threads
        self.options = config.opponents.league
        path = self.options.path
        if run_dir is None and not path:
            raise ValueError("run_dir is None, expected a run folder; a league needs one, or opponents.league.path")
        self.path = Path(path).absolute() if path else league_path(Path(run_dir or ".").parent)
        self._refreshes = 0

    def join(self, game: dict[str, Any]) -> None:
        """Read the league, created if missing; raise ``ValueError`` if it plays another game than the run.

        ``game`` has ``obs_dim``, ``action_dim`` and ``env_cfg``.
        """
        if self.group.is_main:
            with Store(self.path) as store:
                add_default_levels(store)
                store.league().check_signature(signature_of(game))
        self.refresh()

    def refresh(self) -> None:
        """Update the opponent source from the league; an error of rank 0 is raised on all ranks."""
        read = self.group.broadcast(self._read() if self.group.is_main else None)
        if isinstance(read, Exception):
            raise read
        assert read is not None
        league, results = read
        self.source.update_from(League.from_dict(league), self.runner.names, results)

    def _read(self) -> tuple[dict[str, Any], dict[str, list[int]]] | Exception:
        """Return the league, and the results of this run's entries in its matches by opponent."""
        try:
            with Store(self.path) as store:
                league, results = store.league(), {}
                own = {entry.entry_id for entry in run_entries(league, self.source.run)}
                for (one, other), counts in pair_results(store).items():
                    if one in own and other not in own:
                        results[other] = [a + b for a, b in zip(results.get(other, [0, 0, 0]), counts, strict=True)]
                return league.as_dict(), results
        except LEAGUE_ERRORS as error:
            return error

    def refresh_opponents(self) -> None:
        """Read the league again, for the episodes that begin from now on.

        If the league cannot be read, or lost the target, the previous opponents stay and a notice says so.
        """
        try:
            self.refresh()
        except LEAGUE_ERRORS as error:
            self.source.notices.append(
                f"league could not be read again, its previous entries stay opponents: {error_text(error)}"
            )

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
        began, warnings = time.perf_counter(), []
        position = {"update": manifest["update"], "global_step": manifest["global_step"]}
        job = f"{self.source.run} u{manifest['update']}"
        events: list[Event] = []
        callbacks = RoundCallbacks(should_stop=should_stop, on_warning=warnings.append)
        try:
            with Store(self.path) as store:
                self._rate_levels(store, manifest["update"], callbacks)
                entry = self._add_entry(store, policy, manifest)
                self._rate_entry(store, entry, job, manifest["update"], callbacks)
                self._note_retired(store)
                events.append(self._event(store, entry.entry_id, job, began, **position))
        except (OSError, ValueError) as error:
            warnings.append(f"snapshot could not be submitted to the league: {error_text(error)}")
        return events + [EventAlert(message=text, **position) for text in warnings]

    def _add_entry(self, store: Store, policy: FlatPolicy, manifest: dict[str, Any]) -> LeagueEntry:
        """Export the policy beside the league and enter it."""
        run, target, update = self.source.run, self.source.target, manifest["update"]
        folder, short_name = self.path.parent / FOLDER, "-".join(run.split("-")[-2:])
        make_folder(folder)
        path = folder / f"{short_name}-u{update:06d}.safetensors"
        export_policy_weights(policy, manifest, path)
        facts: dict[str, Any] = {"run": run, "update": update, "global_step": manifest["global_step"]}
        if target is not None:
            facts |= {"win_rate": self.source.target_win_rate, "beaten": self.source.target_is_beaten}
        kind, label = "candidate" if target is None else "exploiter", f"{short_name} u{update}"
        return submit(store, path, kind=kind, label=label, target=target or "", facts=facts)

    def _rate_levels(self, store: Store, update: int, callbacks: RoundCallbacks) -> None:
        """Play the scripted levels against each other if the league has no games yet.

        They are the scale: while all of them have the initial rating, opponents of near rating would be arbitrary.
        """
        entries = store.league().entries.values()
        if self.options.match_opponents and all(e.kind == "heuristic" and not e.games for e in entries):
            league_env_config(store, self.config.env)
            config = self._match_config(update)
            play_rounds(store, f"{self.source.run} founding", config, self._replay_folder(), callbacks)

    def _rate_entry(self, store: Store, entry: LeagueEntry, job: str, update: int, callbacks: RoundCallbacks) -> None:
        """Rate an entry by ``match_opponents`` matches."""
        if not self.options.match_opponents:
            return
        config = self._match_config(
            update,
            scheme="skill",
            opponents=self.options.match_opponents,
            only=(entry.entry_id,),
            promote_top=self.options.promote_top,
            conservatism=self.options.conservatism,
            keep_top=self.options.keep_top,
        )
        # rounds that an earlier session of this run left unfinished come first: their matches are already planned
        unfinished = [p.job for p in store.periods() if not p.closed and p.job.startswith(f"{self.source.run} ")]
        with torch.random.fork_rng(devices=[]):
            for name in dict.fromkeys([*unfinished, job]):
                if not play_rounds(store, name, config, self._replay_folder(), callbacks):
                    return

    def _note_retired(self, store: Store) -> None:
        """Note in the league which exploiters this run beats, for its standings."""
        found = self.source.exploiters
        if not found:
            return
        with store.editing() as league:
            for entry_id, is_retired in found.items():
                if entry_id in league.entries:
                    league.entries[entry_id].meta[RETIRED] = is_retired

    def _match_config(self, update: int, **settings: Any) -> ArenaConfig:
        return ArenaConfig(
            seeds=self.options.match_seeds,
            seed=folded(self.config.seed, EVAL_SEED_BASE) + update,
            device=str(self.device),
            threads=self.threads,
            cache=self.options.cache,
            most_upsets=0,
            **settings,
        )

    def _replay_folder(self) -> Path:
        return self.path.parent / FOLDER if self.run_dir is None else RunPaths(Path(self.run_dir)).replays

    def _event(self, store: Store, entry_id: str, job: str, began: float, **position: int) -> EventLeague:
        """Return the event of a submission: its rating, rank and match results."""
        target, entry = self.source.target, store.league().entry(entry_id)
        ranking = [row["id"] for row in standings(store)]
        return EventLeague(
            **position,
            name=entry.name,
            entry=entry_id,
            entry_kind=entry.kind,
            rating=entry.rating.rating + rating_shift(store),
            rd=entry.rating.rd,
            games=entry.games,
            rank=ranking.index(entry_id) + 1 if entry_id in ranking else 0,
            ranked=len(ranking),
            promoted=entry.kind == "commander",
            target=target or "",
            target_win_rate=self.source.target_win_rate if target else math.nan,
            results=_match_results(store, entry_id, job),
            pool=self.source.pool,
            retired=self.source.retired,
            duration_s=time.perf_counter() - began,
        )


def _match_results(store: Store, entry_id: str, job: str) -> dict[str, dict[str, float]]:
    """Return ``games`` and ``score`` of an entry in the matches of a job, by opponent name."""
    results: dict[str, dict[str, float]] = {}
    for match in matches(store, entry=entry_id):
        if match["job"] != job or match["state"] != "played":
            continue
        side, other = SIDES if match["blue"] == entry_id else SIDES[::-1]
        row = results.setdefault(match[f"{other}_name"], {"games": 0.0, "score": 0.0})
        row["games"] += 1
        row["score"] += DRAW if match["winner"] == "draw" else WIN if match["winner"] == side else LOSS
    return results
