"""Least memory of a job, so that one that cannot fit is refused before anything is allocated."""

from echelon.actions import ACTION_DIM
from echelon.config import PACK_SIZE, EnvConfig, RunConfig
from echelon.jobs.usage import has_gpu, machine_memory

GIB = 2**30
VALUE_BYTES = 4
MAX_GPU_BYTES = 1 << 40


def bytes_by_option(config: RunConfig) -> dict[str, int]:
    """Return the bytes of one process by the option that they grow with: simulator, map pool and rollout."""
    from echelon.env.layout import obs_dim
    from echelon.sim.state import array_bytes

    env = config.env
    arrays, maps = array_bytes(env, config.num_envs, config.bank_maps)
    # one side learns at least
    rows = config.num_envs * env.num_packs * PACK_SIZE
    rollout = config.ppo.rollout_steps * rows * (obs_dim(env) + ACTION_DIM) * VALUE_BYTES
    return {"num_envs": arrays, "bank_maps": maps, "ppo.rollout_steps": rollout}


def least_bytes(config: RunConfig) -> int:
    """Return the bytes of the simulator's arrays, the map pool and the rollout; a run takes more for all else."""
    return config.nproc * sum(bytes_by_option(config).values())


def require_memory(config: RunConfig) -> None:
    asked = f"{config.num_envs=}, {config.bank_maps=}, {config.ppo.rollout_steps=}".replace("config.", "")
    _require_room("run", least_bytes(config), config.device, asked)


def require_match_memory(env: EnvConfig, matches: int, device: str) -> None:
    """Raise ``ValueError`` for ``matches`` at the same time, on one map at least, that memory cannot hold."""
    from echelon.sim.state import array_bytes

    asked = f"{matches} matches at a time of {env.num_mechs} mechs on {env.world.size_x} x {env.world.size_y} voxels"
    _require_room("job", sum(array_bytes(env, matches, 1)), device, asked)


def _require_room(what: str, needed: int, device: str, asked: str) -> None:
    available = machine_memory()
    if device != "cpu" and has_gpu():
        available += MAX_GPU_BYTES
    if needed > available:
        limit = f"expected at most {available / GIB:.0f} GiB on this machine; try lower ones"
        raise ValueError(f"{what} needs at least {needed / GIB:.0f} GiB of memory ({asked}), {limit}")


def require_gpu_memory(config: RunConfig, free: int) -> None:
    """Raise ``ValueError`` for a run that needs more than the ``free`` bytes of a rank's GPU; name what to lower."""
    parts = bytes_by_option(config)
    if sum(parts.values()) > free:
        largest = max(parts, key=lambda option: parts[option])
        asked = ", ".join(f"{option} takes {size / GIB:.1f}" for option, size in parts.items())
        raise ValueError(
            f"run needs at least {sum(parts.values()) / GIB:.1f} GiB of GPU memory ({asked}), "
            f"expected at most {free / GIB:.1f} GiB free; try a lower {largest}"
        )
