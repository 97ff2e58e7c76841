"""Recorded matches of the page's policy against the scripted levels, of several seeds the shortest."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from echelon.agents.heuristic import SKILLS
from echelon.arena.contest import Contest, MatchSession
from echelon.arena.match_runner import play
from echelon.arena.named_pilots import policy_pilot
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.config.game import EnvConfig
from echelon.replay.embed import embed_world
from echelon.replay.reader import Replay
from echelon.server.catalogue import summarize

SEEDS = 4
"""Matches against each level, of which one is kept."""


def record_matches(path: Path, name: str, env: EnvConfig, show: Callable[[str], Any]) -> list[tuple[dict, bytes]]:
    """Return a match against each level: its row of a list of matches, and its file with the world."""
    pilot, loaded = policy_pilot(name, path)
    found = []
    for number, level in enumerate(SKILLS):
        show(f"recording {name} against {level}")
        seed = SEEDS * number  # of the first match: each level has maps of its own
        contest = Contest(env=env, pilots=(pilot.id, level), policies={pilot.id: pilot}, matches=SEEDS, first_seed=seed)
        with (
            tempfile.TemporaryDirectory(prefix="echelon-web-") as scratch,
            GroupedPolicyRunner(plan=contest.plan, load=lambda _: loaded, deterministic=False) as runner,
        ):
            session = MatchSession(
                envs=SEEDS, folder=Path(scratch), record=frozenset(range(SEEDS)), policy_runner=runner
            )
            for _ in play(contest.plan, contest.pairings(), session):
                pass
            shortest = min(session.replays.values(), key=lambda file: (file.stat().st_size, file.name))
            with Replay(shortest) as replay:
                # when the policy was stored, so that equal builds are equal, and the last match is the newest
                replay.header["created"] = float(loaded.meta.get("created_at", 0)) + number
                row = summarize(f"recorded-{number}", "recorded", shortest, replay, fresh=False)
                found.append(({**row, "file": f"{name}-against-{level}.ecr"}, embed_world(replay)))
    return found
