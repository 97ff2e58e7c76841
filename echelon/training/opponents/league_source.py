"""Opponents from a league: near equals, exploiters of this run, or the one target of an exploiter.

The source holds the part of the league that it was last shown (``take``) and draws from that alone, so that what is
drawn follows from the run's seed, and a resumed run goes on with the pool it had. Policies are loaded when they are
first drawn, a bounded number of them, and what cannot be loaded leaves the pool with a word about it. Reading and
writing the league itself belongs to ``echelon.training.opponents.league_client``.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import torch

from echelon.arena import matchmaking
from echelon.arena.glicko2 import Glicko2Rating
from echelon.arena.league import League, LeagueEntry
from echelon.arena.policies import LRUPolicyCache
from echelon.arena.submit import entry_pilot, load_pilot
from echelon.config import OpponentConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import LoadedPolicy
from echelon.training.opponents.pool import OpponentMix, scripted_name

NEAR, EXPLOITERS = "league", "exploiters"
"""Kinds of ``MixConfig`` that this source answers for."""
ANY_COMMANDER = "commander"
"""A target that is drawn among the commanders."""
WON = "win"
"""Outcome that counts for an exploiter."""


class LeagueSource(OpponentMix):
    """A mix of which a part is drawn from the league."""

    def __init__(
        self,
        cfg: OpponentConfig,
        seed: int,
        blank: Callable[[], FlatPolicy],
        *,
        run: str,
        fits: Callable[[LoadedPolicy], FlatPolicy],
        device: str = "cpu",
    ) -> None:
        """``run`` submits under this name; ``fits`` returns a loaded policy or says why it cannot play this game."""
        super().__init__(cfg, seed, blank)
        self.run = run
        self.rating, self.games = Glicko2Rating(), 0
        """Of the newest snapshot that this run submitted."""
        self.notices: list[str] = []
        """What became of the league's policies that a person should know."""
        self.recent: deque[bool] = deque(maxlen=cfg.league.target_episodes)
        """Whether the newest episodes against the target were won."""
        self.target: str | None = None
        """Id of the entry that is to be exploited."""
        self._entries: dict[str, LeagueEntry] = {}
        """By the name that metrics know."""
        self._exploiters: set[str] = set()
        """Names of those that exploit this run."""
        self._signature: dict[str, Any] | None = None
        self._cache = LRUPolicyCache(cfg.league.cache)
        self._pinned: set[str] = set()
        """Ids of those that fly."""
        self._fits, self._device = fits, device

    def take(self, league: League) -> None:
        """Draw from this league from now on; ``ValueError`` where the target is not in it."""
        dials = self.cfg.league
        mine = own_entries(league, self.run)
        newest = max(mine, key=lambda e: (e.meta.get("update", 0), e.created_at), default=None)
        if newest is not None:
            self.rating, self.games = newest.rating, newest.games
        pool = league.opponent_pool(
            exclude_id=newest.entry_id if newest else None, commanders=dials.commanders, candidates=dials.candidates
        )
        if dials.target:
            self.target = self.target or find_target(league, dials.target, self.seed).entry_id
            pool = [league.entry(self.target)]
        known = {e.entry_id for e in mine} | {self.run}
        self._signature = league.env_signature
        self._entries = named(pool)
        self._exploiters = {
            n for n, e in self._entries.items() if e.kind == "exploiter" and e.meta.get("target") in known
        }

    @property
    def pool(self) -> list[str]:
        """Names of all who may be drawn from the league."""
        return list(self._entries)

    def entry(self, name: str) -> LeagueEntry | None:
        """Return the entry of that name as it was when the league was last read."""
        return self._entries.get(name)

    def drawn_as(self, kind: str, env: int, episode: int) -> str:
        if kind not in (NEAR, EXPLOITERS):
            return super().drawn_as(kind, env, episode)
        rng = random.Random(f"{self.seed} {env} {episode}")
        while self._entries:
            name = self._chosen(kind, rng)
            if self._is_ready(name):
                return name
        return scripted_name(self.level)

    def policy(self, name: str) -> FlatPolicy:
        entry = self._entries.get(name)
        return super().policy(name) if entry is None else self._held(entry)

    def is_ready(self, name: str) -> bool:
        return self._is_ready(name) if name in self._entries else super().is_ready(name)

    def release(self, in_use: Collection[str]) -> None:
        flying = {entry.entry_id for name in in_use if (entry := self._entries.get(name)) is not None}
        for entry_id in self._pinned - flying:
            self._cache.unpin(entry_id)
        self._pinned &= flying
        super().release(in_use)

    def note(self, name: str, outcome: str) -> None:
        """Note how an episode against somebody ended; only those against the target count."""
        entry = self._entries.get(name)
        if entry is not None and entry.entry_id == self.target:
            self.recent.append(outcome == WON)

    @property
    def target_win_rate(self) -> float:
        """Share of the newest episodes against the target that were won; 0 before the first."""
        return sum(self.recent) / len(self.recent) if self.recent else 0.0

    @property
    def has_exploited(self) -> bool:
        """Whether the target loses more often than was asked for."""
        enough = self.target is not None and len(self.recent) == self.recent.maxlen
        return enough and self.target_win_rate > self.cfg.league.target_win_rate

    def state_dict(self) -> dict[str, Any]:
        """Return everything an exact resume needs; of the league the pool that was drawn from, not its weights."""
        league = {
            "entries": {name: entry.as_dict() for name, entry in self._entries.items()},
            "exploiters": sorted(self._exploiters),
            "signature": self._signature,
            "rating": self.rating.as_dict(),
            "games": self.games,
            "target": self.target,
            "recent": list(self.recent),
        }
        return {**super().state_dict(), "league": league}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        league = state.get("league")
        if league is None:
            return
        self._entries = {name: LeagueEntry.from_dict(row) for name, row in league["entries"].items()}
        self._exploiters, self._signature = set(league["exploiters"]), league["signature"]
        self.rating, self.games = Glicko2Rating.from_dict(league["rating"]), league["games"]
        self.target = league["target"]
        self.recent.clear()
        self.recent.extend(league["recent"])

    def _chosen(self, kind: str, rng: random.Random) -> str:
        """Return whom a draw of the league falls on; exploiters are met alike, others by strength."""
        if kind == EXPLOITERS and self._exploiters:
            return rng.choice(sorted(self._exploiters))
        names = {e.entry_id: n for n, e in self._entries.items() if n not in self._exploiters}
        names = names or {e.entry_id: n for n, e in self._entries.items()}
        dials = self.cfg.league
        met = matchmaking.draw(
            [self._entries[n] for n in names.values()],
            self.rating.rating,
            rng,
            dials.sigma,
            self.games,
            matchmaking.Warmup(dials.warmup_games, dials.warmup_range),
        )
        return names[met.entry_id]

    def _is_ready(self, name: str) -> bool:
        """Have the policy of a name loaded and held; what cannot be leaves the pool."""
        entry = self._entries[name]
        if entry.kind == "heuristic":
            return True
        try:
            self._held(entry)
        except (ValueError, OSError) as error:
            self.notices.append(f"{name} is not met any more: {error}")
            del self._entries[name]
            self._exploiters.discard(name)
            return False
        return True

    def _held(self, entry: LeagueEntry) -> FlatPolicy:
        """Return an entry's policy, which stays loaded until it is released."""
        policy = self._cache.fetch(entry.entry_id, lambda _: self._loaded(entry))
        if entry.entry_id not in self._pinned:
            self._cache.pin(entry.entry_id)
            self._pinned.add(entry.entry_id)
        return policy

    def _loaded(self, entry: LeagueEntry) -> FlatPolicy:
        # a fresh network draws weights, which must not move what training draws
        with torch.random.fork_rng(devices=[]):
            return self._fits(load_pilot(entry_pilot(entry), self._device, self._signature))


def own_entries(league: League, run: str) -> list[LeagueEntry]:
    """Return what a run submitted, whatever became of it."""
    return [e for e in league.entries.values() if e.meta.get("run") == run and e.kind != "exploiter"]


def find_target(league: League, wanted: str, seed: int) -> LeagueEntry:
    """Return whom an exploiter trains against: an entry, the newest of a run, or a commander drawn by ``seed``.

    ``ValueError`` where there is none, or more than one.
    """
    if wanted == ANY_COMMANDER:
        commanders = league.top_commanders(len(league.entries))
        if not commanders:
            raise ValueError("opponents.league.target is 'commander', but the league has none")
        return random.Random(seed).choice(commanders)
    entries = list(league.entries.values())
    exact = [e for e in entries if wanted in (e.entry_id, e.name) or e.entry_id == scripted_name(wanted)]
    found = exact or [e for e in entries if wanted.lower() in e.name.lower()]
    runs = {e.meta.get("run") for e in found} | {e.meta["run"] for e in entries if wanted in e.meta.get("run", "")}
    if len(found) != 1 and len(runs) == 1 and (run := runs.pop()):
        found = [max(own_entries(league, run), key=lambda e: e.meta.get("update", 0))]
    if len(found) != 1:
        said = ", ".join(sorted(e.name for e in found or entries)) or "nobody"
        raise ValueError(f"opponents.league.target is {wanted!r}, wanted one of: {said}")
    return found[0]


def named(pool: Collection[LeagueEntry]) -> dict[str, LeagueEntry]:
    """Return entries by the names that metrics know; two of one name are told apart by their ids."""
    found: dict[str, LeagueEntry] = {}
    for entry in pool:
        name = entry.entry_id if entry.kind == "heuristic" else f"{entry.kind}:{entry.name}"
        found[f"{name} ({entry.entry_id})" if name in found else name] = entry
    return found
