"""Submitting checkpoints to the league, and loading the policies of entries.

A checkpoint is validated before it is added; the first one fixes the environment configuration of the league, on fair
maps.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from echelon.arena.contest import Pilot
from echelon.arena.league import LeagueEntry
from echelon.arena.store import ENV_SETTING, FOLDER, Store, add_default_levels
from echelon.config import EnvConfig, Fairness, with_fairness
from echelon.env.layout import ORDERS
from echelon.files import make_folder
from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.validation import validated

SIGNATURE = ("obs_layout", "dt_sim", "decision_repeat", "nav_mode")
"""Environment fields a policy depends on, besides the widths of observation and action; it plays at any size."""
SHOWN_CHARS = 60
INVALID_GAME = "environment configuration of the {} is invalid in this version: "
LEAGUE_FAIRNESS: Fairness = "path"
"""Fairness of the maps of a new league, whatever maps its first policy was trained on."""


def signature_of(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the environment signature of a checkpoint; ``ValueError`` where its manifest lacks it.

    It leaves out the block of orders, since policies with and without it are fitted to each other's rows.
    """
    env = meta.get("env_cfg")
    if not isinstance(env, dict):
        raise ValueError("checkpoint manifest has no env_cfg, expected the environment configuration")
    columns = meta.get("obs_dim", 0) - ORDERS.width * bool(env.get("observe_orders"))
    return {"obs_dim": columns, "action_dim": meta.get("action_dim")} | {key: env.get(key) for key in SIGNATURE}


def submit(
    store: Store,
    path: Path,
    *,
    kind: str = "candidate",
    label: str = "",
    target: str = "",
    facts: Mapping[str, Any] | None = None,
) -> LeagueEntry:
    """Add a checkpoint with additional metadata ``facts`` to the league; ``ValueError`` where it is not playable.

    Of a run it is the best, else the newest. The entry has a copy of the policy beside the league, so that it plays on
    when its run is deleted.
    """
    path = path.absolute() if path.is_file() else find_checkpoint(path.absolute()).path.absolute()
    loaded = load_policy(path)
    if nonfinite := [name for name, value in loaded.policy.state_dict().items() if not torch.isfinite(value).all()]:
        raise ValueError(f"checkpoint {str(path)!r} has weights that are not finite: {', '.join(nonfinite[:3])}")
    signature = signature_of(loaded.meta)
    meta = {"label": label or display_name(path, loaded.meta), "checkpoint": str(loaded.meta.get("id", ""))}
    if (run := run_folder(path)) is not None:
        meta |= {"run": run.name, "update": int(loaded.meta.get("update", 0))}
    meta |= facts or {}
    if target:
        meta["target"] = target
    env = None if store.setting(ENV_SETTING) else league_env_of(loaded.meta["env_cfg"])
    add_default_levels(store)
    with store.editing() as league:
        entry = league.upsert_checkpoint(path, kind=kind, env_signature=signature, meta=meta)
        if path.parent != (folder := store.path.absolute().parent / FOLDER):
            entry.ckpt_path = str(_copy(path, folder / f"entry-{entry.entry_id.replace(':', '-')}"))
    if env is not None:
        store.init_setting(ENV_SETTING, env)
    return entry


def _copy(path: Path, target: Path) -> Path:
    """Copy a policy, without what only training needs; return the path of the copy."""
    if path.is_dir():
        export_policy_folder(find_checkpoint(path), target)
        return target
    make_folder(target.parent)
    return Path(shutil.copyfile(path, f"{target}{path.suffix}"))


def league_env_of(env: dict[str, Any]) -> dict[str, Any]:
    """Return the environment that a league gets from its first policy; ``ValueError`` where there is none such."""
    world = env.get("world", {})
    if not isinstance(world, dict):
        raise ValueError(f"checkpoint has the world {str(world)[:SHOWN_CHARS]!r}, expected an object")
    values = {**env, "world": {**world, "fairness": LEAGUE_FAIRNESS}}
    validated(EnvConfig, values, INVALID_GAME.format("checkpoint"))
    return values


def run_folder(path: Path) -> Path | None:
    """Return the run folder that contains a checkpoint; None outside of one."""
    return next((p for p in path.parents if (p / "spec.json").is_file()), None)


def display_name(path: Path, meta: dict[str, Any]) -> str:
    if meta.get("kind") == "outside":
        return str(meta["name"])
    run = run_folder(path)
    words = "-".join(run.name.split("-")[-2:]) if run is not None else path.stem
    return f"{words} u{int(meta.get('update', 0))}"


def league_env_config(store: Store, initial: EnvConfig | None = None) -> EnvConfig:
    """Return the environment configuration of the league; ``initial`` sets it where it is not set yet."""
    if initial is not None:
        store.init_setting(ENV_SETTING, asdict(initial))
    row = store.setting(ENV_SETTING) or store.init_setting(
        ENV_SETTING, asdict(with_fairness(EnvConfig(), LEAGUE_FAIRNESS))
    )
    return validated(EnvConfig, row, INVALID_GAME.format("league"))


def entry_pilot(entry: LeagueEntry, shift: float = 0.0) -> Pilot:
    """Return the pilot of an entry; ``shift`` is added to its rating, if it has played."""
    level = str(entry.meta.get("level", "")) if entry.kind == "heuristic" else ""
    checkpoint = str(entry.meta.get("checkpoint", ""))
    rating = entry.rating.rating + shift if entry.games else None
    return Pilot(
        id=entry.entry_id, label=entry.name, level=level, path=entry.ckpt_path, checkpoint=checkpoint, rating=rating
    )


def load_pilot(pilot: Pilot, device: str, signature: dict[str, Any] | None) -> LoadedPolicy:
    """Load a pilot's policy; ``ValueError`` where its file is missing, damaged, or not the one submitted."""
    if not Path(pilot.path).exists():
        raise ValueError(f"checkpoint {pilot.path!r} is missing; add it again from its new path")
    loaded = load_policy(pilot.path, device)
    if pilot.checkpoint and loaded.meta.get("id") != pilot.checkpoint:
        raise ValueError(f"checkpoint {pilot.path!r} is {loaded.meta.get('id')!r} now, expected {pilot.checkpoint!r}")
    found = signature_of(loaded.meta)
    wrong = [f"{k} {v!r}, expected {signature[k]!r}" for k, v in found.items() if signature and signature.get(k) != v]
    if wrong:
        raise ValueError(f"checkpoint {pilot.path!r} was built for another environment: {'; '.join(wrong)}")
    return loaded
