"""Tables of a game with which a page records matches and saves their states: those of ``echelon.replay.record``."""

from pathlib import Path
from typing import Any

from echelon.env.engine import Engine
from echelon.env.engine_state import PLANES
from echelon.env.match_state import INITIAL, state_names
from echelon.env.observe import orders
from echelon.replay.header import TeamInfo, build_header
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.winprob import load_model
from echelon.sim.state import Tracks
from echelon.sim.structs import fields_of
from echelon.sim.tables import duration_ticks
from echelon.sim.world import MATERIAL_HP

AFTER_ABOUT = "duration_s"
"""Entry of a header before which those of ``MatchInfo.about`` stand."""


def install(engine: Engine) -> Recorder:
    """Let an engine record its match as pages do; return its recorder."""
    return Recorder(engine, [0], Path(), [MatchInfo(name="")], policy="actions")


def record_tables(engine: Engine) -> dict[str, Any]:
    """Return the tables by name; viewer/src/game/recording.ts says what they are."""
    recorder = install(engine)
    team = TeamInfo(name="")
    header = build_header(engine.batch, 0, (team, team), 0, {}, recorder.policy_columns)
    entries, split = list(header.items()), list(header).index(AFTER_ABOUT)
    return {
        "header": [dict(entries[:split]), dict(entries[split:])],
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
