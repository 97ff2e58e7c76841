"""Replaces the champion in the box: ``python -m echelon.training.champion RUN``, which ``just champion`` calls.

Writes the policy of a run's best checkpoint as a policy folder, then plays matches against ``OPPONENT`` on fair maps
and stores the first one that it wins. Paths of this machine leave the stored configuration,
whose game is ``shipped_game``.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from echelon import champion
from echelon.arena.contest import BLUE, Contest, MatchSession, Pilot
from echelon.arena.match_runner import play
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.config import EnvConfig, with_fairness
from echelon.config.presets import get_preset
from echelon.files import atomic_write
from echelon.replay.embed import embed_world
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
from echelon.rl.weights import load_policy
from echelon.runs import find_run
from echelon.training.policy_agent import env_config_of
from echelon.training.starting_point import RETURN_STATISTICS, plain_statistics

OPPONENT = "expert"
"""Scripted level of the recorded match."""
MATCHES = 8
"""Matches of which the first won one is stored."""
DROPPED = ("rows", "processes", "best", "git", "curriculum")
"""Entries of a manifest that say nothing about the policy."""


def install(source: Path, folder: Path = champion.FOLDER, *, matches: int = MATCHES) -> dict[str, Any]:
    """Make the policy at ``source`` the champion in ``folder``; return its id, size [bytes] and the match's outcome.

    Raises ``ValueError`` where the files would be larger than ``MAX_BYTES``.
    """
    checkpoint = find_checkpoint(source)
    manifest = {key: portable(value) for key, value in checkpoint.manifest.items() if key not in DROPPED}
    manifest["env_cfg"] |= asdict(shipped_game(env_config_of(manifest)))
    if RETURN_STATISTICS not in manifest:
        manifest[RETURN_STATISTICS] = plain_statistics(checkpoint.state()["trainer"][RETURN_STATISTICS])
    export_policy_folder(replace(checkpoint, manifest=manifest), folder)
    outcome = record_match(folder, matches)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in (".safetensors", ".json", ".ecr"))
    if size > champion.MAX_BYTES:
        raise ValueError(f"champion has {size} bytes, expected at most {champion.MAX_BYTES}")
    return {"id": checkpoint.id, "bytes": size, **outcome}


def shipped_game(trained: EnvConfig) -> EnvConfig:
    """Return the game that the champion plays where none is named: one pack on the maps of preset ``standard``."""
    game = get_preset("standard").env
    sizes = {name: getattr(game, name) for name in ("world", "num_packs", "max_episode_seconds")}
    return replace(trained.without_ranges(), **sizes, order_rate=0.0)


def portable(value: Any) -> Any:
    """Return a plain value with absolute paths, also within ``KIND:PATH``, shortened to their last part."""
    if isinstance(value, Mapping):
        return {key: portable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [portable(item) for item in value]
    if not isinstance(value, str):
        return value
    kind, colon, path = value.rpartition(":")
    return f"{kind}{colon}{Path(path).name}" if Path(path).is_absolute() else value


def record_match(folder: Path, matches: int = MATCHES) -> dict[str, Any]:
    """Store the first match that the policy in ``folder`` wins as blue, else the first, as its ``match.ecr``."""
    loaded = load_policy(folder)
    env = env_config_of(loaded.meta)
    name, identity = champion.NAME, str(loaded.meta["id"])
    policies = {name: Pilot(id=name, label=name, path=str(folder), checkpoint=identity)}
    contest = Contest(env=with_fairness(env, "path"), pilots=(name, OPPONENT), policies=policies, matches=matches)
    with (
        tempfile.TemporaryDirectory(prefix="echelon-champion-") as scratch,
        GroupedPolicyRunner(plan=contest.plan, load=lambda pilot: loaded, deterministic=False) as runner,
    ):
        session = MatchSession(
            envs=matches, folder=Path(scratch), record=frozenset(range(matches)), policy_columns=True,
            policy_runner=runner,
        )  # fmt: skip
        played = sorted(play(contest.plan, contest.pairings(), session), key=lambda result: result.pairing.number)
        won = [result for result in played if result.record.winner == BLUE]
        chosen = (won or played)[0].pairing
        with Replay(session.replays[chosen.number]) as replay:
            atomic_write(folder / champion.MATCH.name, embed_world(replay))
    return {"won": len(won), "matches": len(played), "seed": chosen.seed}


def main(arguments: Sequence[str]) -> None:
    """Install the policy of the run or checkpoint that the only argument names, and print what was done."""
    (name,) = arguments
    source = Path(name) if Path(name).exists() else find_run(name).root
    print(", ".join(f"{key} {value}" for key, value in install(source).items()))


if __name__ == "__main__":
    main(sys.argv[1:])
