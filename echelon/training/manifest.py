"""What a checkpoint says about itself: sizes, counters and the configuration that its policy was trained with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.config import PACK_SIZE, RunConfig, env_signature
from echelon.env import layout
from echelon.env.layout import FLAT_OBS_DIM
from echelon.runs import RunPaths, read_json

if TYPE_CHECKING:
    from echelon.training.session import Session


def manifest_of(s: Session) -> dict[str, Any]:
    """Return what a checkpoint of this moment of a session says about itself."""
    cfg, counters = s.config, s.counters
    comm_width, map_width, extra_width = tail_widths(cfg, s.env.obs_dim)
    spec = read_json(RunPaths(Path(s.run_dir)).spec) if s.run_dir is not None else None
    return {
        "kind": cfg.model.kind,
        "obs_dim": s.env.obs_dim,
        "action_dim": s.env.action_dim,
        "rows": s.env.rows,
        "processes": s.world.size,
        "comm_width": comm_width,
        "map_width": map_width,
        "extra_width": extra_width,
        "predict": cfg.ppo.aux_coef > 0,
        "hidden_dim": cfg.model.hidden_dim,
        "lstm_hidden_dim": cfg.model.lstm_hidden_dim,
        "update": counters.update,
        "global_step": counters.global_step,
        "episodes": counters.episodes,
        "best": counters.best,
        "model_cfg": asdict(cfg.model),
        "env_cfg": env_signature(cfg.env),
        "ppo_cfg": asdict(cfg.ppo),
        "reward_cfg": asdict(cfg.env.reward),
        "args": asdict(cfg),
        "curriculum": dict(s.env.get_curriculum()),
        "git": (spec or {}).get("git", {}),
    }


def tail_widths(config: RunConfig, obs_dim: int) -> tuple[int, int, int]:
    """Return the columns of comms, local map and extras in the suite layout's tail; zero for another layout."""
    if config.model.kind != "suite":
        return 0, 0, 0
    comm_width = PACK_SIZE * config.env.comm_dim if config.env.observe_comms else 0
    extra_width = layout.extra_width(config.env)
    return comm_width, obs_dim - FLAT_OBS_DIM - comm_width - extra_width, extra_width
