"""A run's place in the league: it reads whom it may meet, submits snapshots, has them rated, and says so.

Snapshots lie beside the league, where they outlive the run. One is rated by matches of its own against entries near
it, played into the league as an arena job would, so that a crash neither loses nor doubles one. The main process
reads, writes and plays; what it read, all of several processes take. Draws from the league are ``league_source``'s.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from echelon.arena.bootstrap import add_default_levels
from echelon.arena.config import ArenaConfig
from echelon.arena.league import League, LeagueEntry
from echelon.arena.rounds import RoundCallbacks, play_rounds
from echelon.arena.standings import matches, rating_shift, standings
from echelon.arena.store import Store, league_path
from echelon.arena.submit import league_env_config, signature_of, submit
from echelon.rl.build import FlatPolicy
from echelon.runs import RunPaths
from echelon.telemetry.events import Event, EventAlert, EventLeague
from echelon.training.manifest import manifest_of
from echelon.training.opponents.league_source import LeagueSource
from echelon.training.opponents.outcomes import outcome_of
from echelon.training.opponents.pool import OpponentMix
from echelon.training.weights import LoadedPolicy, check_dimensions, export_policy_weights

if TYPE_CHECKING:
    from echelon.training.session import Session

VALUE_SCALE = "return_rms"
"""What a trainer's state and a submitted policy call the statistics that values are scaled by."""
NAMELESS = "run"
"""A run without a folder."""
FOLDER = "league"
"""Where submitted policies lie, beside the league."""
SIDES = ("blue", "red")
POINTS = {True: 1.0, False: 0.0}
"""What a player gets where somebody won, by whether it was the winner."""
DRAWN = 0.5
UNREADABLE = (OSError, ValueError, KeyError)
"""What is raised where a league cannot be read, or no longer holds whom it should."""


class LeagueClient:
    """One session's run in one league."""

    def __init__(self, session: Session, source: LeagueSource) -> None:
        path, run_dir = session.config.opponents.league.path, session.run_dir
        if run_dir is None and not path:
            raise ValueError("run_dir is None, wanted a run's folder or opponents.league.path to meet a league")
        self.session, self.source = session, source
        self.config, self.dials = session.config, session.config.opponents.league
        self.path = Path(path).absolute() if path else league_path(Path(run_dir or ".").parent)
        self._epoch = 0
        """Refreshes so far, by the episodes that were played."""

    def join(self) -> None:
        """Read the league, founding it if need be; ``ValueError`` where it plays another game than the run."""
        s = self.session
        if s.world.is_main:
            game = {"obs_dim": s.env.obs_dim, "action_dim": s.env.action_dim, "env_cfg": asdict(s.config.env)}
            with Store(self.path) as store:
                add_default_levels(store)
                store.league().check_signature(signature_of(game))
        self.refresh()

    def refresh(self) -> None:
        """Draw from the league as it is now; what the main process cannot read is raised in all."""
        found = self.session.world.broadcast(self._read() if self.session.world.is_main else None)
        if isinstance(found, Exception):
            raise found
        assert found is not None
        self.source.take(League.from_dict(found))

    def _read(self) -> dict[str, Any] | Exception:
        try:
            with Store(self.path) as store:
                return store.league().as_dict()
        except UNREADABLE as error:
            return error

    def redraw(self) -> None:
        """Read the league again and draw everybody's opponent anew, from zero recurrent states.

        A league that cannot be read, or has lost the target, costs this refresh, not the run: whom it met it meets on.
        """
        try:
            self.refresh()
        except UNREADABLE as error:
            self.source.notices.append(f"league could not be read again, its former entries are met on: {error}")
        else:
            self.session.opposition.begin()

    def resume_at(self, episodes: int) -> None:
        """Count on from as many episodes."""
        self._epoch = episodes // self.dials.refresh_episodes

    def note(self, episodes: Sequence[Any], met: Sequence[str]) -> None:
        """Note how episodes ended against whom."""
        for record, name in zip(episodes, met, strict=True):
            self.source.note(name, outcome_of(record))

    def turn(self, should_stop: Callable[[], bool]) -> list[Event]:
        """Submit and read the league where this update is one to do so; return what is to be said."""
        counters, every = self.session.counters, self.dials.submit_every_updates
        due = every and counters.update % every == 0 and self.source.target is None
        said = self.enter(should_stop) if due else []
        before, self._epoch = self._epoch, counters.episodes // self.dials.refresh_episodes
        if self._epoch > before:
            self.redraw()
        warnings = self.source.notices.copy()
        self.source.notices.clear()
        return said + self._alerts(warnings)

    def _alerts(self, warnings: Sequence[str]) -> list[Event]:
        c = self.session.counters
        return [EventAlert(message=text, update=c.update, global_step=c.global_step) for text in warnings]

    def enter(self, should_stop: Callable[[], bool], *, begins: bool = False) -> list[Event]:
        """Enter the policy as it is now, have it rated, and return what is to be said; nothing in other processes.

        Once for an update, and an exploiter not when it ``begins``. A run that begins then knows its own strength, and
        draws anew. A league that cannot be written costs this snapshot, not the run.
        """
        said = [] if begins and self.source.target is not None else self._entered(should_stop)
        if begins:
            self.redraw()
        return said

    def _entered(self, should_stop: Callable[[], bool]) -> list[Event]:
        s = self.session
        again, s.counters.submitted_update = s.counters.submitted_update == s.counters.update, s.counters.update
        if again or not s.world.is_main:
            return []
        began, warnings = time.perf_counter(), []
        said: list[Event] = []
        try:
            with Store(self.path) as store:
                self._measure_levels(store, should_stop, warnings.append)
                entry = self._enter(store)
                job = f"{self.source.run} u{s.counters.update}"
                self._rate(store, entry, job, should_stop, warnings.append)
                said.append(self._said(store, entry.entry_id, job, began))
        except (OSError, ValueError) as error:
            warnings.append(f"snapshot could not join the league: {error}")
        return said + self._alerts(warnings)

    def _enter(self, store: Store) -> LeagueEntry:
        s, run = self.session, self.source.run
        folder, words = self.path.parent / FOLDER, "-".join(run.split("-")[-2:])
        folder.mkdir(exist_ok=True)
        path = folder / f"{words}-u{s.counters.update:06d}.pt"
        scale = {VALUE_SCALE: s.trainer.return_normalizer.state_dict()}
        export_policy_weights(s.policy, manifest_of(s) | scale, path)
        facts = {"run": run, "update": s.counters.update, "global_step": s.counters.global_step}
        target = self.source.target
        if target is not None:
            facts |= {"win_rate": self.source.target_win_rate, "beaten": self.source.has_exploited}
        kind, label = "candidate" if target is None else "exploiter", f"{words} u{s.counters.update}"
        return submit(store, path, kind=kind, label=label, target=target or "", facts=facts)

    def _measure_levels(self, store: Store, should_stop: Callable[[], bool], warn: Callable[[str], object]) -> None:
        """Have the scripted levels of a league that nobody has played in meet each other.

        They are the scale; while they all stand where they began, newcomers would be given opponents at random.
        """
        entries = store.league().entries.values()
        if self.dials.match_opponents and all(e.kind == "heuristic" and not e.games for e in entries):
            league_env_config(store, self.config.env)
            listeners = RoundCallbacks(should_stop=should_stop, warn=warn)
            play_rounds(store, f"{self.source.run} founding", self._matches(), self._replays(), listeners)

    def _rate(
        self,
        store: Store,
        entry: LeagueEntry,
        job: str,
        should_stop: Callable[[], bool],
        warn: Callable[[str], object],
    ) -> None:
        if not self.dials.match_opponents:
            return
        config = self._matches(
            scheme="skill",
            opponents=self.dials.match_opponents,
            only=(entry.entry_id,),
            promote_top=self.dials.promote_top,
            conservatism=self.dials.conservatism,
            keep_top=self.dials.keep_top,
        )
        listeners = RoundCallbacks(should_stop=should_stop, warn=warn)
        # what an earlier session of this run left half played comes first: its matches are planned already
        begun = [p.job for p in store.periods() if not p.closed and p.job.startswith(f"{self.source.run} ")]
        with torch.random.fork_rng(devices=[]):
            for name in dict.fromkeys([*begun, job]):
                if not play_rounds(store, name, config, self._replays(), listeners):
                    return

    def _matches(self, **dials: Any) -> ArenaConfig:
        """Return how matches are played that this run rates itself by."""
        s = self.session
        return ArenaConfig(
            seeds=self.dials.match_seeds,
            seed=self.config.seed + s.counters.update,
            device=str(s.device),
            threads=s.threads,
            cache=self.dials.cache,
            most_upsets=0,
            **dials,
        )

    def _replays(self) -> Path:
        run_dir = self.session.run_dir
        return self.path.parent / FOLDER if run_dir is None else RunPaths(Path(run_dir)).replays

    def _said(self, store: Store, entry_id: str, job: str, began: float) -> EventLeague:
        counters, target = self.session.counters, self.source.target
        entry = store.league().entry(entry_id)
        places = [row["id"] for row in standings(store)]
        results: dict[str, dict[str, float]] = {}
        for match in matches(store, entry=entry_id):
            if match["job"] != job or match["state"] != "played":
                continue
            mine = SIDES.index("blue" if match["blue"] == entry_id else "red")
            row = results.setdefault(match[f"{SIDES[1 - mine]}_name"], {"games": 0.0, "score": 0.0})
            row["games"] += 1
            row["score"] += DRAWN if match["winner"] == "draw" else POINTS[match["winner"] == SIDES[mine]]
        return EventLeague(
            update=counters.update,
            global_step=counters.global_step,
            name=entry.name,
            entry=entry_id,
            entry_kind=entry.kind,
            rating=entry.rating.rating + rating_shift(store),
            rd=entry.rating.rd,
            games=entry.games,
            rank=places.index(entry_id) + 1 if entry_id in places else 0,
            ranked=len(places),
            promoted=entry.kind == "commander",
            target=target or "",
            target_win_rate=self.source.target_win_rate if target else math.nan,
            results=results,
            pool=self.source.pool,
            duration_s=time.perf_counter() - began,
        )


def make_opponent_source(
    session: Session, seed: int, blank: Callable[[], FlatPolicy]
) -> tuple[OpponentMix, LeagueClient | None]:
    """Return whom a session meets, and its place in the league if that is where some of them are."""
    cfg, env = session.config.opponents, session.env
    if not cfg.mix.uses_league:
        return OpponentMix(cfg, seed, blank), None

    def fits(loaded: LoadedPolicy) -> FlatPolicy:
        check_dimensions(loaded.meta, obs_dim=env.obs_dim, action_dim=env.action_dim)
        return loaded.policy

    run = Path(session.run_dir).name if session.run_dir is not None else NAMELESS
    source = LeagueSource(cfg, seed, blank, run=run, fits=fits, device=str(session.device))
    return source, LeagueClient(session, source)
