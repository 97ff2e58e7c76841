"""Competitions: hidden maps that were committed to, every match recorded, and a folder that anyone can check.

``init`` draws a secret and writes its hash; the seeds of the maps follow from the secret, which is revealed after the
last match. Every pair of entries plays every seed from both sides; an attacker, an entry without a rating, plays its
target only, which is the target's red-team score. ``verify`` needs nothing but the folder: whether
seeds are those of the commitment and matches those of entries and seeds, whether a sample of matches plays again bit
for bit, and whether policies and levels would act as recorded on the recorded observations.

The folder has ``competition.json`` (``CompetitionRules``), ``entries`` (policies, and ``entries.json``),
``matches.jsonl`` (a ``ListedMatch`` a line) and ``matches`` (recordings).
"""

import hashlib
import hmac
import itertools
import json
import random
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from echelon.actions import QUANTISATION_LEVELS
from echelon.agent_files import is_agent
from echelon.agents import heuristic
from echelon.arena.branch_pilots import BranchPilots
from echelon.arena.contest import MatchPlan, MatchSession, Pairing, Pilot
from echelon.arena.match_runner import play
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.arena.reconstruct import open_match, recorded_steps
from echelon.arena.verify import verify as verify_replay
from echelon.config import EnvConfig
from echelon.env.layout import obs_dim
from echelon.env.referee import WINNERS
from echelon.files import atomic_write, make_folder
from echelon.replay.embed import embed_world
from echelon.replay.reader import Replay
from echelon.replay.schema import WORLDS_FOLDER
from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
from echelon.rl.fitting import fitted
from echelon.rl.weights import LoadedPolicy, check_dimensions, load_policy
from echelon.runs import runs_home
from echelon.state_files import read_bounded
from echelon.statistics import Z_95, alpha_rank, bradley_terry, nash_weights, wilson_interval
from echelon.validation import validated
from echelon.version import SIM_VERSION

RULES, ENTRIES, MATCHES, BOARD = "competition.json", "entries.json", "matches.jsonl", "board.json"
ANCHOR, ANCHOR_RATING = "medium", 1500.0
"""Level whose rating is fixed, and that rating."""
LEAST_SAMPLE = 20
"""Matches that ``verify`` plays again at least."""
EQUAL_RATE = 0.99
"""Least share of a player's decisions that are as recorded: another processor rounds differently."""
MAX_ROWS_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class CompetitionRules:
    """What a competition fixes before its first match."""

    name: str
    created: float
    env: dict[str, Any]
    """Game (``EnvConfig``)."""
    maps: int
    """Seeds that each pair plays from both sides."""
    commitment: str
    """SHA-256 of the secret that the seeds follow from."""
    sim_version: int = SIM_VERSION
    closed: str = ""
    """SHA-256 of rules and entries (``Competition.seal``), from the first match on."""
    secret: str = ""
    """The secret, after the last match."""

    @property
    def game(self) -> EnvConfig:
        return validated(EnvConfig, self.env, "competition has a game that is none: ")


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A player of a competition."""

    name: str
    level: str = ""
    """Scripted level; empty for a policy or a program."""
    file: str = ""
    """Its policy in the folder, or its program's file."""
    sha256: str = ""
    """Hash of its files."""
    id: str = ""
    """Id of its checkpoint."""
    program: bool = False
    attacks: str = ""
    """Name of the entry that an attacker attacks; empty for an entry that is rated."""


@dataclass(frozen=True, kw_only=True)
class ListedMatch:
    """A match."""

    number: int
    map: int
    """Number of its seed."""
    blue: str
    red: str
    winner: str
    reason: str
    seconds: float
    score: tuple[float, float]
    replay: str
    sha256: str


@dataclass
class Competition:
    """A competition's folder."""

    folder: Path
    rules: CompetitionRules
    entries: list[Entrant] = field(default_factory=list)
    rows: list[ListedMatch] = field(default_factory=list)
    _loaded: dict[str, LoadedPolicy] = field(default_factory=dict)
    """Policies by name of the entry, each read once."""

    @classmethod
    def init(cls, folder: Path, name: str, env: EnvConfig, maps: int) -> "Competition":
        """Write a new competition; ``ValueError`` where the folder has one."""
        if (folder / RULES).exists():
            raise ValueError(f"folder {str(folder)!r} has a competition, expected a new folder")
        secret = secrets.token_hex(32)
        commitment = hashlib.sha256(secret.encode()).hexdigest()
        rules = CompetitionRules(
            name=name, created=time.time(), env=asdict(env.without_ranges()), maps=maps, commitment=commitment
        )
        make_folder(_secret_file(rules).parent)
        atomic_write(_secret_file(rules), secret, mode=0o600)
        made = cls(folder, rules)
        make_folder(folder / "matches")
        make_folder(folder / "entries")
        made.save()
        return made

    @classmethod
    def open(cls, folder: Path) -> "Competition":
        """Return the competition of a folder; ``ValueError`` where it has none or a damaged one."""
        if not (folder / RULES).is_file():
            raise ValueError(
                f"folder {str(folder)!r} has no competition, expected {RULES}; echelon compete init makes one"
            )
        rules = validated(CompetitionRules, json.loads(read_bounded(folder / RULES)), f"{RULES} ")
        entries = [validated(Entrant, row, f"{ENTRIES} ") for row in json.loads(read_bounded(folder / ENTRIES))]
        rows = []
        if (folder / MATCHES).exists():
            text = read_bounded(folder / MATCHES, MAX_ROWS_BYTES).decode()
            for number, line in enumerate(text.splitlines(), 1):
                try:
                    rows.append(validated(ListedMatch, json.loads(line), ""))
                except ValueError as error:
                    raise ValueError(f"line {number} of {MATCHES} is no match: {error}") from None
        return cls(folder, rules, entries, rows)

    def save(self) -> None:
        atomic_write(self.folder / RULES, json.dumps(asdict(self.rules), indent=1) + "\n")
        atomic_write(self.folder / ENTRIES, self.entries_text())

    def entries_text(self) -> str:
        """Return the content of ``entries.json``, whose hash the rules have from the first match on."""
        return json.dumps([asdict(entry) for entry in self.entries], indent=1) + "\n"

    def seal(self) -> str:
        """Return the hash of all that the first match fixes: rules, the commitment among them, and entries."""
        fixed = {**asdict(self.rules), "closed": "", "secret": ""}
        return hashlib.sha256((json.dumps(fixed, sort_keys=True) + self.entries_text()).encode()).hexdigest()

    def enter(self, name: str, level: str, path: Path | None, attacks: str = "") -> Entrant:
        """Add a level, or a copy of the policy at ``path``; ``ValueError`` where it cannot play, or none can enter."""
        self._require_open()
        if attacks and attacks not in [entry.name for entry in self.rated]:
            raise ValueError(f"{attacks!r} is no rated entry, expected one of: {names_of(self.rated)}")
        if name in [entry.name for entry in self.entries]:
            raise ValueError(f"entry {name!r} exists, expected another name; choose one with --name")
        if name in heuristic.SKILLS and name != level:
            raise ValueError(f"entry {name!r} has the name of a level, expected another; choose one with --name")
        if level and (attacks or name != level):
            raise ValueError(f"entry {name!r} is the level {level}, which enters under this name and attacks none")
        entry = Entrant(name=name, level=level, attacks=attacks)
        if path is not None:
            loaded = self._fitted(name, path)
            free = next(n for n in itertools.count() if not any(self.folder.glob(f"entries/{n:03d}*")))
            file = self._copy(path, f"entries/{free:03d}")
            entry = replace(entry, file=file, id=str(loaded.meta.get("id", "")), program=is_agent(path))
            entry = replace(entry, sha256=self.hash_of(entry))
        self.entries.append(entry)
        self.save()
        return entry

    def remove(self, name: str) -> None:
        """Remove an entry and its attackers; ``ValueError`` where there is none, or after the first match."""
        self._require_open()
        gone = [entry for entry in self.entries if name in (entry.name, entry.attacks)]
        if name not in [entry.name for entry in gone]:
            raise ValueError(f"entry {name!r} does not exist, expected one of: {names_of(self.entries)}")
        self.entries = [entry for entry in self.entries if entry not in gone]
        self.save()
        for path in [self.inside(entry.file) for entry in gone if entry.file]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _require_open(self) -> None:
        if self.rules.closed:
            raise ValueError(f"competition {self.rules.name!r} has begun, its entries are fixed since its first match")

    @property
    def rated(self) -> list[Entrant]:
        """The entries that are no attackers."""
        return [entry for entry in self.entries if not entry.attacks]

    def _copy(self, path: Path, file: str) -> str:
        if path.is_dir():
            export_policy_folder(find_checkpoint(path), self.folder / file)
            return file
        shutil.copyfile(path, self.folder / f"{file}{path.suffix}")
        return f"{file}{path.suffix}"

    def hash_of(self, entry: Entrant) -> str:
        """Return the hash of an entry's files."""
        path, digest = self.inside(entry.file), hashlib.sha256()
        for part in sorted(path.iterdir()) if path.is_dir() else [path]:
            digest.update(hashlib.sha256(part.read_bytes()).digest())
        return digest.hexdigest()

    def fault_of(self, entry: Entrant) -> str:
        """Return what is wrong with an entry or its files, "" nothing."""
        if entry.attacks and entry.attacks not in [rated.name for rated in self.rated]:
            return f"{entry.name} attacks {entry.attacks}, which is not rated here"
        if entry.level or not entry.file:
            fits = entry.level in heuristic.SKILLS and not entry.file and not entry.program
            fits &= entry.name == entry.level and not entry.attacks
            return "" if fits else f"{entry.name} is no such level"
        try:
            if self.hash_of(entry) != entry.sha256:
                return f"the policy of {entry.name} has changed since the first match"
            listed = entry.program == is_agent(self.inside(entry.file))
            return "" if listed else f"{entry.name} is not what it is listed as"
        except (OSError, ValueError) as error:
            return f"{entry.name}: {error}"

    def inside(self, file: str) -> Path:
        """Return the path of a file; ``ValueError`` where it is not in the folder."""
        path = (self.folder / file).resolve()
        if not file or not path.is_relative_to(self.folder.resolve()):
            raise ValueError(f"file {file!r} is not in the competition's folder")
        return path

    def load(self, entry: Entrant) -> LoadedPolicy:
        """Return the policy of an entry; ``ValueError`` where it cannot be read or plays another game."""
        if entry.name not in self._loaded:
            self._loaded[entry.name] = self._fitted(entry.name, self.inside(entry.file))
        return self._loaded[entry.name]

    def _fitted(self, name: str, path: Path) -> LoadedPolicy:
        loaded = fitted(load_policy(path), obs_dim(self.rules.game))
        try:
            check_dimensions(loaded.meta, obs_dim=obs_dim(self.rules.game))
        except ValueError as error:
            raise ValueError(f"entry {name!r} plays another game: {error}") from None
        return loaded

    def fixtures(self) -> list[tuple[str, str, int]]:
        """Return blue, red and the number of the map of every match: maps first, so that early boards are fair."""
        pairs = list(itertools.combinations([entry.name for entry in self.rated], 2))
        pairs += [(entry.name, entry.attacks) for entry in self.entries if entry.attacks]
        sides = [(blue, red) for one, other in pairs for blue, red in ((one, other), (other, one))]
        return [(blue, red, number) for number in range(self.rules.maps) for blue, red in sides]

    def seed(self, secret: str, number: int) -> int:
        """Return the seed of a map."""
        digest = hmac.new(secret.encode(), str(number).encode(), "sha256").digest()
        return int.from_bytes(digest[:4], "big") >> 2

    def close(self) -> str:
        """Close the list of entries, where it is open; return the hash of what is fixed now."""
        if not self.rules.closed:
            self.rules = replace(self.rules, closed=self.seal())
            self.save()
        return self.rules.closed

    def run(self, *, envs: int, threads: int, show: Callable[[str], object], should_stop: Callable[[], bool]) -> bool:
        """Play the matches that are left; return whether all were played, after which the secret is revealed.

        ``ValueError`` where the secret is not on this machine, or fewer than two entries play.
        """
        if len(self.rated) < 2:
            raise ValueError(
                f"competition has {len(self.rated)} entries, expected at least 2; echelon compete enter adds one"
            )
        self.close()
        secret = self.rules.secret or self._secret()
        played, fixtures = {row.number for row in self.rows}, self.fixtures()
        left = [number for number in range(len(fixtures)) if number not in played]
        loaded = {entry.name: self.load(entry) for entry in self.entries if not entry.level}
        for first in range(0, len(left), envs):
            show(f"{len(fixtures) - len(left) + first} of {len(fixtures)} matches")
            if should_stop():
                return False
            self._play(left[first : first + envs], secret, loaded, envs, threads, should_stop)
        finished = len(self.rows) == len(fixtures)
        if finished and not self.rules.secret:
            self.rules = replace(self.rules, secret=secret)
            self.save()
        return finished

    def _secret(self) -> str:
        try:
            return _secret_file(self.rules).read_text()
        except OSError:
            raise ValueError(
                f"secret of competition {self.rules.name!r} is not here; its host plays the matches"
            ) from None

    def _play(
        self, numbers: Sequence[int], secret: str, loaded: dict[str, LoadedPolicy], envs: int, threads: int,
        should_stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        fixtures = self.fixtures()
        pilots = {
            e.name: Pilot(id=e.name, label=e.name, level=e.level, path=e.file, checkpoint=e.id) for e in self.entries
        }
        seats = {number: fixtures[number][:2] for number in numbers}
        plan = MatchPlan(env=self.rules.game, pilots=pilots, seats=seats)
        with GroupedPolicyRunner(
            plan=plan, load=lambda pilot: loaded[pilot.id], deterministic=False, threads=threads
        ) as runner:
            session = MatchSession(
                envs=envs, threads=threads, folder=self.folder / "matches", record=frozenset(numbers),
                policy_runner=runner, should_stop=should_stop,
            )  # fmt: skip
            pairings = [Pairing(number, self.seed(secret, fixtures[number][2]), False) for number in numbers]
            results = {result.pairing.number: result for result in play(plan, pairings, session)}
        if session.recording_errors:
            raise ValueError(session.recording_errors[0])
        for number in sorted(results.keys() & session.replays.keys()):
            record, path, (blue, red, map_) = results[number].record, session.replays[number], fixtures[number]
            with Replay(path) as replay:
                whole = embed_world(replay)
            atomic_write(path, whole)
            row = ListedMatch(
                number=number, map=map_, blue=blue, red=red, winner=WINNERS[record.winner], reason=record.reason,
                seconds=record.length * self.rules.game.dt_act, score=record.zone_score, replay=f"matches/{path.name}",
                sha256=hashlib.sha256(whole).hexdigest(),
            )  # fmt: skip
            self.rows.append(row)
        shutil.rmtree(self.folder / "matches" / WORLDS_FOLDER, ignore_errors=True)
        lines = [json.dumps(asdict(row)) + "\n" for row in self.rows]
        atomic_write(self.folder / MATCHES, "".join(lines))

    def board(self) -> dict[str, Any]:
        """Return ratings with 95 % intervals, ranks, red-team scores, Nash weights, alpha-rank and scores so far.

        A rank is one more than the number of entries that are better with 95 % certainty. The red-team score is the
        highest win rate of the attackers of an entry.
        """
        rated = self.rated
        at, points = {entry.name: i for i, entry in enumerate(rated)}, np.zeros((len(rated), len(rated)))
        attacks: dict[str, dict[str, Any]] = {
            e.name: {"name": e.name, "attacks": e.attacks, "wins": 0, "matches": 0} for e in self.entries if e.attacks
        }
        for row in self.rows:
            if row.blue in at and row.red in at:
                i, j = at[row.blue], at[row.red]
                points[i, j] += {"blue": 1.0, "red": 0.0}.get(row.winner, 0.5)
                points[j, i] += {"blue": 0.0, "red": 1.0}.get(row.winner, 0.5)
            else:
                side, attacker = ("blue", row.blue) if row.blue in attacks else ("red", row.red)
                attacks[attacker]["wins"] += row.winner == side
                attacks[attacker]["matches"] += 1
        games = points + points.T
        scores = np.divide(points, games, out=np.full_like(points, 0.5), where=games > 0)
        anchor = at.get(ANCHOR, 0)
        ratings, covariances = bradley_terry(points, anchor)
        variances = np.diag(covariances)
        gaps = ratings[:, None] - ratings
        better = gaps > Z_95 * np.sqrt(np.maximum(0.0, variances[:, None] + variances - 2.0 * covariances))
        nash, masses = nash_weights(scores), alpha_rank(scores)
        attackers = list(attacks.values())
        table = [
            {
                "name": entry.name,
                "level": entry.level,
                "program": entry.program,
                "rank": 1 + int(better[:, i].sum()),
                "rating": round(ANCHOR_RATING + ratings[i], 1),
                "interval": round(Z_95 * float(np.sqrt(variances[i])), 1),
                "matches": int(games[i].sum()),
                "points": float(points[i].sum()),
                "nash": round(float(nash[i]), 4),
                "alpha_rank": round(float(masses[i]), 4),
                "scores": [round(float(score), 4) for score in scores[i]],
                "red_team": _red_team([row for row in attackers if row["attacks"] == entry.name]),
            }
            for i, entry in enumerate(rated)
        ]
        board = {"anchor": rated[anchor].name, "played": len(self.rows), "planned": len(self.fixtures())}
        return {**board, "entries": table, "attackers": attackers}


def _red_team(attackers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the best win rate of the attackers of an entry [%] with its 95 % Wilson interval; None without any."""
    played = [row for row in attackers if row["matches"]]
    if not played:
        return None
    best = max(played, key=lambda row: row["wins"] / row["matches"])
    rates = [best["wins"] / best["matches"], *wilson_interval(best["wins"], best["matches"])]
    win_rate, low, high = [round(100.0 * rate, 1) for rate in rates]
    return {"attacker": best["name"], "of": len(attackers), "win_rate": win_rate, "interval": [low, high]}


def names_of(entries: Sequence[Entrant]) -> str:
    return ", ".join(repr(entry.name) for entry in entries)


def _secret_file(rules: CompetitionRules) -> Path:
    return runs_home() / "competitions" / f"{rules.commitment[:16]}.secret"


def verify(
    competition: Competition,
    sample: float,
    seed: int | None = None,
    show: Callable[[str], object] = lambda text: None,
    published: Sequence[str] = (),
) -> Iterator[tuple[str, str, str]]:
    """Yield each check of a competition's folder: its name, what was found, and what is wrong, "" nothing.

    ``sample`` is the share of the matches that are played again, chosen by ``seed`` or at random, at least
    ``LEAST_SAMPLE``. ``published`` are hashes that the host published: the commitment, the seal or both.
    """
    c, rules, fixtures = competition, competition.rules, dict(enumerate(competition.fixtures()))
    strange = [text for text in published if text not in (rules.commitment, rules.closed)]
    hashes = {"commitment": rules.commitment, "seal": rules.closed}
    missing = [name for name, text in hashes.items() if text not in published]
    said = f"not compared: {' and '.join(missing)}; give what the host published" if missing else "commitment and seal"
    yield "published", said, f"{strange[0]} is neither the commitment nor the seal" if strange else ""
    revealed = hashlib.sha256(rules.secret.encode()).hexdigest() == rules.commitment
    wrong = "the secret is not the one that was committed to" if rules.secret else "the competition has not finished"
    yield "secret", f"commitment {rules.commitment}", "" if revealed else wrong
    wrong = "" if c.seal() == rules.closed else "rules or list of entries are not those of the first match"
    yield "rules and entries", f"seal {rules.closed}", wrong or "; ".join(filter(None, map(c.fault_of, c.entries)))
    played = {row.number for row in c.rows}
    odd = [row.number for row in c.rows if fixtures.get(row.number) != (row.blue, row.red, row.map)]
    faults = [f"match {odd[0]} is not one of the plan"] if odd else []
    left = sorted(fixtures.keys() - played)
    faults += [f"{len(left)} missing, the first is match {left[0]}"] if left else []
    faults += ["some are listed twice"] if len(played) < len(c.rows) else []
    yield "matches", f"{len(c.rows)} of {len(fixtures)}", ", ".join(faults)
    faults = [fault for row in c.rows if (fault := _recording_fault(c, row, rules.secret if revealed else ""))]
    more = f" ({len(faults)} in all)" if len(faults) > 1 else ""
    yield "recordings", f"{len(c.rows)} files", faults[0] + more if faults else ""
    yield "ratings", f"of {len(c.rated)} entries", _board_fault(c)
    wanted = max(LEAST_SAMPLE, round(sample * len(c.rows) + 0.5)) if sample else 0
    chosen = random.Random(seed).sample(c.rows, min(len(c.rows), wanted))
    equal, decisions, faults = Counter[str](), Counter[str](), list[str]()
    for number, row in enumerate(chosen):
        show(f"{number} of {len(chosen)} matches played again")
        try:
            path = c.inside(row.replay)
            again = verify_replay(path)
            if again.first is not None:
                faults.append(f"match {row.number} differs at tick {again.first.tick}: {again.first.field}")
            for name, (same, count) in recompute(c, row, path).items():
                equal[name] += same
                decisions[name] += count
        except (ValueError, OSError) as error:
            faults.append(f"match {row.number}: {error}")
    found = f"{len(chosen)} of {len(c.rows)} matches played again, bit for bit" if chosen else "not checked"
    yield "simulation", found, f"{len(faults)} fail, the first: {faults[0]}" if faults else ""
    for entry in c.entries:
        if entry.program or not (count := decisions[entry.name]):
            reason = "a program" if entry.program else "not played again"
            yield f"actions of {entry.name}", f"not checked: {reason}", ""
            continue
        rate = equal[entry.name] / count
        wrong = "" if rate >= EQUAL_RATE else f"expected {EQUAL_RATE:.0%}; another player played in its name"
        yield f"actions of {entry.name}", f"{rate:.2%} of {count} decisions equal", wrong


def _board_fault(c: Competition) -> str:
    """Return where ``board.json`` differs from what the matches give, "" nowhere."""
    try:
        listed, given = json.loads(read_bounded(c.folder / BOARD)), json.loads(json.dumps(c.board()))
        if listed == given:
            return ""
        for one, other in zip(listed["entries"], given["entries"], strict=True):
            if odd := [key for key in other if one.get(key) != other[key]]:
                return f"{odd[0]} of {other['name']} is {one.get(odd[0])}, the matches give {other[odd[0]]}"
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    return f"{BOARD} is missing, or not what the matches give"


def _recording_fault(c: Competition, row: ListedMatch, secret: str) -> str:
    """Return what is wrong with the recording of a match, "" nothing."""
    match = f"match {row.number}"
    try:
        path = c.inside(row.replay)
        if hashlib.sha256(path.read_bytes()).hexdigest() != row.sha256:
            return f"{match}: the recording is another file"
        with Replay(path) as replay:
            header, outcome = replay.header, replay.outcome or {"winner": 2, "reason": ""}
            teams = tuple(team["name"] for team in header["teams"])
            if teams != (row.blue, row.red):
                return f"{match}: recorded teams are {' and '.join(teams)}, listed {row.blue} and {row.red}"
            ended = WINNERS[outcome["winner"]], outcome["reason"]
            if ended != (row.winner, row.reason):
                return f"{match}: recorded winner is {' by '.join(ended)}, listed {row.winner} by {row.reason}"
            if secret and header["seed"] != c.seed(secret, row.map):
                return f"{match}: its seed is not that of map {row.map} by the secret"
    except FileNotFoundError:
        return f"{match}: the recording {row.replay} is missing"
    except (ValueError, OSError) as error:
        return f"{match}: {error}"
    return ""


def recompute(c: Competition, row: ListedMatch, path: Path) -> dict[str, tuple[int, int]]:
    """Return how many decisions of each player, policy or level, are as recorded on the recorded observations.

    A decision is equal where no entry of a living mech's action differs by more than one level of quantisation.
    """
    entries = {entry.name: entry for entry in c.entries}
    with Replay(path) as recorded:
        sides, team = [entries[row.blue], entries[row.red]], np.array([m["team"] for m in recorded.header["roster"]])
        loaded = [None if e.level or e.program else c.load(e) for e in sides]
        policies = {m: policy for m, side in enumerate(team) if (policy := loaded[side]) is not None}
        equal, count = np.zeros(2, int), np.zeros(2, int)
        with BranchPilots(policies) as pilots:
            engine = open_match(recorded, prepare=pilots.attach)
            try:
                script = np.array(
                    [heuristic.script_of(sides[s].level) if sides[s].level else 0 for s in team], np.int32
                )
                engine.batch.set("script", script[None])
                pilots.start({}, [int(recorded.header["seed"])])
                for step in recorded_steps(recorded, 0, recorded.ticks):
                    pilots.act()
                    engine.run("pilots")
                    chosen, alive = engine.batch.numpy("actions")[0].copy(), engine.batch.numpy("alive")[0] == 1
                    levels = np.rint(np.clip(np.stack([chosen, step.actions]), -1, 1) * QUANTISATION_LEVELS)
                    same = (np.abs(levels[0] - levels[1]) <= 1).all(1)
                    for side in (0, 1):
                        own = alive & (team == side)
                        equal[side] += same[own].sum()
                        count[side] += own.sum()
                    engine.batch.set("actions", step.actions[None])
                    engine.step(program="after_pilots")
            finally:
                engine.close()
    known = [side for side in (0, 1) if not sides[side].program]
    return {sides[side].name: (int(equal[side]), int(count[side])) for side in known}
