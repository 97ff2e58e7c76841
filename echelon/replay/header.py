"""Header of a recorded match: teams, map, configuration, and the tables and columns of the file."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from echelon.replay import schema
from echelon.replay.policy_columns import PolicyColumns
from echelon.replay.winprob import known_rating
from echelon.sim.arsenal import Guidance, Mechanic, mechanic_names
from echelon.sim.batch import Batch
from echelon.sim.episode_draws import limits_of
from echelon.sim.physics import Physics
from echelon.sim.tables import STOCK_TABLES, GameTables
from echelon.sim.world import MATERIALS
from echelon.version import SIM_VERSION, __version__

TEAM_LETTERS = "BR"


@dataclass(frozen=True, kw_only=True)
class TeamInfo:
    """Pilot of a team, as stored in a header."""

    name: str
    policy: str = ""
    checkpoint: str = ""
    level: str = ""
    rating: float | None = None
    """Rating of the pilots on the scale of ``echelon.replay.winprob`` [points]; None unknown."""
    mean: bool | None = None
    """True where a policy played its mean actions; None where it sampled them, and for other pilots."""

    def to_header(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def build_header(
    batch: Batch,
    env: int,
    teams: Sequence[TeamInfo],
    map_seed: int,
    about: Mapping[str, Any],
    policy_columns: PolicyColumns | None = None,
    flown: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Return the header, without the world, of the episode that environment ``env`` is about to play.

    ``map_seed`` -1 uses the episode's seed. ``about`` adds or replaces entries. ``flown`` has name and checkpoint of
    each mech's pilot, where a team may have several.
    """
    cfg = batch.cfg
    tables = batch.tables(env)
    seed = int(_row(batch, "seed", env))
    _, duration_s, score_to_win = limits_of(cfg, seed)
    return {
        "schema": [schema.SCHEMA_MAJOR, schema.SCHEMA_MINOR],
        "created": time.time(),
        "echelon": __version__,
        "sim_version": SIM_VERSION,
        "tick_hz": 1 / cfg.dt_sim,
        "frame_ticks": cfg.decision_repeat,
        "chunk_ticks": round(schema.CHUNK_SECONDS / cfg.dt_sim),
        "mechs": batch.num_mechs,
        "teams": [_team(team, batch, env) for team in teams],
        "seed": seed,
        "map_seed": map_seed if map_seed >= 0 else seed,
        "env": env,
        "run": "",
        "update": 0,
        "global_step": 0,
        **about,
        "duration_s": duration_s,
        "score_to_win": score_to_win,
        "zone": [float(v) for v in _row(batch, "zone", env)],
        "cloud": {"radius": tables.physics.smoke_radius_vox, "life_s": tables.physics.smoke_life_s},
        "sensing": _sensing(batch, tables.physics),
        "without": mechanic_names(Mechanic(int(_row(batch, "withheld", env)))),
        "changes": batch.changes[env],
        **_pilots(batch, env, flown),
        "roster": _roster(batch, env),
        **header_tables(tables),
        **_policy_columns(batch.num_mechs, policy_columns),
        "config": non_default(asdict(cfg), asdict(type(cfg)())),
    }


def _team(team: TeamInfo, batch: Batch, env: int) -> dict[str, Any]:
    """Return a team's entry, with the known rating of its level or policy where it has none.

    A scripted pilot whose triggers do not always take effect has no known rating.
    """
    whole = "weapon_prob" not in batch.fields or float(_row(batch, "weapon_prob", env)) == 1.0
    rating = team.rating if team.rating is not None or not whole else known_rating(team.level, team.checkpoint)
    return replace(team, rating=rating).to_header()


def header_tables(tables: GameTables | None = None) -> dict[str, Any]:
    """Return names, columns and tables of a header; mech classes and weapons have the values of ``tables``."""
    tables = tables or STOCK_TABLES
    return {
        "chassis": [
            {
                "name": spec.chassis.name.lower(),
                "size": list(spec.size),
                **{key: getattr(spec, key) for key in ("hp", "leg_hp", "heat_cap", "max_speed", "max_jet")},
            }
            for spec in tables.chassis
        ],
        "weapons": [
            {
                "name": spec.weapon.name.lower(),
                "guidance": Guidance(spec.guidance).name.lower(),
                "range": spec.range_vox,
                "speed": spec.speed_vox_s,
                "cooldown_s": spec.cooldown_s,
                "damage": spec.damage,
            }
            for spec in tables.weapons
        ],
        "materials": [spec.material.name.lower() for spec in MATERIALS],
        "events": schema.enum_names(schema.EventKind),
        "flags": schema.enum_names(schema.MechFlag),
        "hit_flags": schema.enum_names(schema.HitFlag),
        "cooldowns": list(schema.COOLDOWNS),
        "columns": [column.to_header() for column in schema.COLUMNS],
        "tables": [table.to_header() for table in schema.TABLES],
    }


def non_default(values: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            changed |= non_default(value, defaults[key], f"{prefix}{key}.")
        elif value != defaults[key]:
            changed[f"{prefix}{key}"] = value
    return changed


def _row(batch: Batch, name: str, env: int) -> Any:
    return batch[name][env : env + 1].numpy()[0]


def _sensing(batch: Batch, physics: Physics) -> dict[str, Any]:
    return {
        "radar": [round(physics.radar_vox * float(share), 3) for share in batch["sensor_range"].numpy()],
        "ewar": physics.ewar_vox,
        "ecm": physics.ecm_weight,
        "eccm": physics.eccm_weight,
        "own_eccm": batch.cfg.own_eccm,
        "quality": [physics.quality_min, physics.quality_max],
    }


def _policy_columns(mechs: int, policy_columns: PolicyColumns | None) -> dict[str, Any]:
    if policy_columns is None:
        return {}
    columns = [column.to_header() for column in (*schema.COLUMNS, *policy_columns.columns(mechs))]
    return {"columns": columns, **policy_columns.to_header()}


def _pilots(batch: Batch, env: int, flown: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the scripted pilot of each mech, 0 none, the probability of their triggers, and names if there are any.

    Empty without scripted pilots.
    """
    if "script" not in batch.fields:
        return {}
    script, probability = _row(batch, "script", env), _row(batch, "weapon_prob", env)
    named = {"names": [name for name, _ in flown], "checkpoints": [ident for _, ident in flown]} if flown else {}
    return {"pilots": {"script": script.tolist(), "weapon_prob": float(probability), **named}}


def _roster(batch: Batch, env: int) -> list[dict[str, Any]]:
    team, pack, chassis, present = (_row(batch, name, env) for name in ("team", "pack", "chassis", "present"))
    count = [0] * len(TEAM_LETTERS)
    roster = []
    for m in range(len(team)):
        side = int(team[m])
        count[side] += 1
        name = f"{TEAM_LETTERS[side]}{count[side]}"
        row = {"team": side, "pack": int(pack[m]), "chassis": int(chassis[m])}
        roster.append({**row, "name": name, "present": bool(present[m])})
    return roster
