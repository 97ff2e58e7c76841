"""Tables of a game with which a page records matches and saves their states: those of ``echelon.replay.record``."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.env.engine_state import PLANES
from echelon.env.match_state import INITIAL, state_names
from echelon.env.observe import orders
from echelon.play.config import TUTORIAL_S
from echelon.replay.header import TeamInfo, build_header, non_default
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.winprob import load_model
from echelon.sim.state import Tracks
from echelon.sim.structs import fields_of
from echelon.sim.tables import duration_ticks, pack_rules
from echelon.sim.world import MATERIAL_HP

AFTER_ABOUT = "duration_s"
"""Entry of a header before which those of ``MatchInfo.about`` stand."""
TUTORIAL_STEP = "tutorial_step"
"""Program ``end_step`` of the tutorial, which has other limits."""


def install(engine: Engine) -> Recorder:
    """Let an engine record its match as pages do, and play the tutorial; return its recorder."""
    rules = pack_rules(_tutorial(engine), engine.batch.tables(0), "cpu")
    engine.programs[TUTORIAL_STEP] = lambda: [
        replace(launch, given={**launch.given, "rules": rules}) for launch in engine.end_step()
    ]
    return Recorder(engine, [0], Path(), [MatchInfo(name="")], policy="actions")


def _tutorial(engine: Engine) -> EnvConfig:
    return replace(engine.cfg, max_episode_seconds=TUTORIAL_S)


def record_tables(engine: Engine) -> dict[str, Any]:
    """Return the tables by name; viewer/src/game/recording.ts says what they are."""
    recorder, cfg = install(engine), _tutorial(engine)
    team = TeamInfo(name="")
    header = build_header(engine.batch, 0, (team, team), 0, {}, recorder.policy_columns)
    entries, split = list(header.items()), list(header).index(AFTER_ABOUT)
    return {
        "header": [dict(entries[:split]), dict(entries[split:])],
        "tutorial": {
            "duration_s": cfg.max_episode_seconds,
            "score_to_win": cfg.zone_score_to_win,
            "config": non_default(asdict(cfg), asdict(type(cfg)())),
        },
        "chunk_frames": recorder.chunk_frames,
        "state_ticks": recorder.state_ticks,
        "cloud_ticks": duration_ticks(header["cloud"]["life_s"], engine.cfg.dt_sim),
        "ratings": load_model().ratings,
        "state": state_names(engine),
        "tracks": list(fields_of(Tracks)),
        "orders": {name: INITIAL.get(name, 0) for name in orders.GIVEN},
        "terms": "\n".join(engine.term_names),
        "material_hp": MATERIAL_HP.tolist(),
        "planes": {name: blocks.tolist() for name, blocks in PLANES},
    }
