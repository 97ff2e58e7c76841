"""Opponents from a league: near ratings, exploiters of this run, or the one target of an exploiter.

The source samples from the league entries of its last ``update_from`` alone, so that opponents follow from the run's
seed and a resumed run continues with the same pool. A bounded number of policies is loaded, each when it is first
sampled; an entry that cannot be loaded leaves the pool with a notice. ``echelon.training.opponents.league_client``
reads and writes the league itself.
"""

import random
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from echelon.arena import matchmaking
from echelon.arena.glicko2 import Glicko2Rating
from echelon.arena.league import League, LeagueEntry, find_target, run_entries
from echelon.arena.policies import LRUPolicyCache
from echelon.arena.submit import entry_pilot, load_pilot
from echelon.config import OpponentConfig
from echelon.files import error_text
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import LoadedPolicy
from echelon.training.opponents.pool import OpponentMix, scripted_name
from echelon.validation import validated

NEAR, EXPLOITERS = "league", "exploiters"
"""Fields of ``MixConfig`` that are sampled from the league."""
WON = "win"
"""Outcome that counts towards beating the target."""
RETURN_SHARE = 0.05
"""Share of the episodes against exploiters that retired ones play, so that a run that loses to them again notices."""


class LeagueSource(OpponentMix):
    """An opponent mix of which a part is sampled from the league."""

    def __init__(
        self,
        cfg: OpponentConfig,
        seed: int,
        make_policy: Callable[[], FlatPolicy],
        *,
        run: str,
        check_policy: Callable[[LoadedPolicy], FlatPolicy],
        champion: LoadedPolicy | None = None,
        device: str = "cpu",
    ) -> None:
        """``run`` is the name it submits under.

        ``check_policy`` returns a loaded policy or raises ``ValueError`` if it cannot play this game.
        """
        super().__init__(cfg, seed, make_policy, champion)
        self.run = run
        self.rating, self.games = Glicko2Rating(), 0
        """Rating and rated games of the newest snapshot that this run submitted."""
        self.notices: list[str] = []
        """Messages about league policies, to be emitted as alerts."""
        self.target_wins: deque[bool] = deque(maxlen=cfg.league.target_episodes)
        """Whether the newest episodes against the target were won."""
        self.target: str | None = None
        """Id of the entry to exploit."""
        self._entries: dict[str, LeagueEntry] = {}
        """By opponent name, as metrics have it."""
        self._former: dict[str, LeagueEntry] = {}
        """Entries that have left the pool, or had this name in it, and play on until their episodes end."""
        self._exploiters: set[str] = set()
        """Names of the entries that exploit this run."""
        self._signature: dict[str, Any] | None = None
        self._cache = LRUPolicyCache(cfg.league.cache)
        self._pinned: set[str] = set()
        """Ids of the entries in use."""
        self._check_policy, self._device = check_policy, device
        self.locate: Callable[[str], str] = str
        """Returns where the policy of an entry can be read, by the path that the league has for it."""

    def update_from(
        self, league: League, in_use: Collection[str] = (), results: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        """Sample from this league from now on; raise ``ValueError`` if the target is not in it.

        ``in_use`` are the opponents of running episodes, which these episodes keep. ``results`` are wins, draws and
        losses of this run's entries in the matches of the league, by opponent: the first estimate of the win rate.
        """
        cfg = self.cfg.league
        submitted = run_entries(league, self.run)
        newest = max(submitted, key=lambda e: (e.meta.get("update", 0), e.created_at), default=None)
        if newest is not None:
            self.rating, self.games = newest.rating, newest.games
        pool = league.opponent_pool(
            exclude_id=newest.entry_id if newest else None, commanders=cfg.commanders, candidates=cfg.candidates
        )
        if cfg.target:
            self.target = self.target or find_target(league, cfg.target, self.seed).entry_id
            pool = [league.entry(self.target)]
        own_ids = {e.entry_id for e in submitted} | {self.run}
        self._signature = league.env_signature
        known = {**self._former, **self._entries}
        self._entries = entries_by_name(pool, known)
        for entry_id, (wins, draws, losses) in (results or {}).items():
            self.priorities.expect(entry_id, wins + draws / 2, wins + draws + losses)
        self._former = {name: known[name] for name in in_use if name in known and name not in self._entries}
        self._exploiters = {
            n for n, e in self._entries.items() if e.kind == "exploiter" and e.meta.get("target") in own_ids
        }

    @property
    def pool(self) -> list[str]:
        """Names of all opponents that may be sampled from the league."""
        return list(self._entries)

    @property
    def retired(self) -> list[str]:
        """Names of the exploiters of this run that it beats for certain, by ``retire_win_rate``."""
        names, threshold = sorted(self._exploiters), self.cfg.league.retire_win_rate
        return [name for name in names if self.priorities.least_win_rate(self._key(name)) > threshold]

    @property
    def exploiters(self) -> dict[str, bool]:
        """Whether each exploiter of this run has retired, by entry id."""
        retired = self.retired
        return {self._entries[name].entry_id: name in retired for name in sorted(self._exploiters)}

    def draw_of_kind(self, kind: str, env: int, episode: int) -> str:
        """Return the opponent of an episode, of a kind that is a field of ``MixConfig``."""
        if kind not in (NEAR, EXPLOITERS):
            return super().draw_of_kind(kind, env, episode)
        rng = random.Random(f"{self.seed} {env} {episode}")
        while self._entries:
            name = self._sample_entry(kind, rng)
            if self._load_or_drop(name):
                return name
        return scripted_name(self.level)

    def policy(self, name: str) -> FlatPolicy:
        entry = self._entry(name)
        return super().policy(name) if entry is None else self._pinned_policy(entry)

    def is_ready(self, name: str) -> bool:
        """Return whether the policy is loaded; an entry that cannot be loaded leaves the pool."""
        return super().is_ready(name) if self._entry(name) is None else self._load_or_drop(name)

    def release(self, in_use: Collection[str]) -> None:
        """Unpin league policies and release snapshots that are not in use."""
        used_ids = {entry.entry_id for name in in_use if (entry := self._entry(name)) is not None}
        for entry_id in self._pinned - used_ids:
            self._cache.unpin(entry_id)
        self._pinned &= used_ids
        super().release(in_use)

    def record_outcome(self, name: str, outcome: str) -> None:
        """Record the outcome of an episode against an opponent, which its priority and the target's win rate follow.

        An entry's win rate is kept by its id: it stays through a promotion and while the entry is not in the pool.
        """
        key = self._key(name)
        super().record_outcome(key, outcome)
        if key == self.target:
            self.target_wins.append(outcome == WON)

    @property
    def target_win_rate(self) -> float:
        """Win rate over the newest episodes against the target; 0 before the first."""
        return sum(self.target_wins) / len(self.target_wins) if self.target_wins else 0.0

    @property
    def target_is_beaten(self) -> bool:
        """Whether the win rate against the target is above ``target_win_rate``, over enough episodes."""
        enough = self.target is not None and len(self.target_wins) == self.target_wins.maxlen
        return enough and self.target_win_rate > self.cfg.league.target_win_rate

    def state_dict(self) -> dict[str, Any]:
        """Return the state of an exact resume; of the league its pool, without weights."""
        league = {
            "entries": {name: asdict(entry) for name, entry in self._entries.items()},
            "former": {name: asdict(entry) for name, entry in self._former.items()},
            "exploiters": sorted(self._exploiters),
            "signature": self._signature,
            "rating": asdict(self.rating),
            "games": self.games,
            "target": self.target,
            "recent": list(self.target_wins),
        }
        return {**super().state_dict(), "league": league}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        league = state.get("league")
        if league is None:
            return
        self._entries, self._former = (
            {name: validated(LeagueEntry, row) for name, row in league.get(part, {}).items()}
            for part in ("entries", "former")
        )
        self._exploiters, self._signature = set(league["exploiters"]), league["signature"]
        self.rating, self.games = validated(Glicko2Rating, league["rating"]), league["games"]
        self.target = league["target"]
        self.target_wins.clear()
        self.target_wins.extend(league["recent"])

    def _entry(self, name: str) -> LeagueEntry | None:
        return self._entries.get(name) or self._former.get(name)

    def _key(self, name: str) -> str:
        entry = self._entry(name)
        return name if entry is None else entry.entry_id

    def _factor(self, name: str) -> float:
        return super()._factor(self._key(name))

    def _names_of(self, kind: str) -> list[str]:
        """Return the opponents of a kind: active exploiters, without any of them those of ``league``."""
        if kind not in (NEAR, EXPLOITERS):
            return super()._names_of(kind)
        active = sorted(self._exploiters - set(self.retired)) if kind == EXPLOITERS else []
        return active or [name for name in self._entries if name not in self._exploiters] or list(self._entries)

    def _sample_entry(self, kind: str, rng: random.Random) -> str:
        """Return a sampled league opponent: by win rate, or with exponent 0 by rating, of exploiters any.

        Now and then a retired exploiter comes back.
        """
        retired = self.retired if kind == EXPLOITERS else []
        if retired and rng.random() < RETURN_SHARE:
            return rng.choice(retired)
        found = self._names_of(kind)
        if self.priorities.exponent or not self._exploiters.isdisjoint(found):
            return rng.choices(found, [self._factor(name) for name in found])[0]
        names, cfg = {self._entries[n].entry_id: n for n in found}, self.cfg.league
        entry = matchmaking.sample_opponent(
            [self._entries[n] for n in names.values()],
            self.rating.rating,
            rng,
            cfg.sigma,
            self.games,
            matchmaking.Warmup(cfg.warmup_games, cfg.warmup_range),
        )
        return names[entry.entry_id]

    def _load_or_drop(self, name: str) -> bool:
        """Load and pin the policy of a league opponent and return True; on an error drop it from the pool."""
        entry = self._entry(name)
        if entry is None or entry.kind == "heuristic":
            return True
        try:
            self._pinned_policy(entry)
        except (ValueError, OSError) as error:
            if not isinstance(error, ConnectionError):  # which the next read of the league reports
                self.notices.append(f"opponent {name!r} is no longer sampled: {error_text(error)}")
            self._entries.pop(name, None)
            self._former.pop(name, None)
            self._exploiters.discard(name)
            return False
        return True

    def _pinned_policy(self, entry: LeagueEntry) -> FlatPolicy:
        """Return the policy of an entry, which stays loaded until it is released."""
        policy = self._cache.fetch(entry.entry_id, lambda _: self._load(entry))
        if entry.entry_id not in self._pinned:
            self._cache.pin(entry.entry_id)
            self._pinned.add(entry.entry_id)
        return policy

    def _load(self, entry: LeagueEntry) -> FlatPolicy:
        # a new network draws its initial weights, which must not advance the generator of training
        with torch.random.fork_rng(devices=[]):
            pilot = entry_pilot(entry)
            pilot = replace(pilot, path=self.locate(pilot.path))
            return self._check_policy(load_pilot(pilot, self._device, self._signature))


def entries_by_name(pool: Collection[LeagueEntry], known: Mapping[str, LeagueEntry]) -> dict[str, LeagueEntry]:
    """Return entries by opponent name, as metrics have it; a name of another entry gets the entry id appended.

    Names in ``known`` belong to their entries.
    """
    found: dict[str, LeagueEntry] = {}
    for entry in pool:
        name = entry.entry_id if entry.kind == "heuristic" else f"{entry.kind}:{entry.name}"
        owner = found.get(name) or known.get(name)
        found[name if owner is None or owner.entry_id == entry.entry_id else f"{name} ({entry.entry_id})"] = entry
    return found
