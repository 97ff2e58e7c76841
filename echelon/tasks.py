"""Benchmark tasks: names that fix game, maps and opponent, registered with Gymnasium (docs/tasks.md).

Importing this module registers them, and so does ``import echelon`` after ``import gymnasium``; Gymnasium imports it
itself for ``echelon.tasks:echelon/5v5-easy-v1`` (since its version 1.0 it reads no entry points). A published task
never changes: another game is another version.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from echelon.config import EnvConfig

NAMESPACE = "echelon"
SELF_PLAY = "self"
"""Opponent of a task in which the caller controls both teams."""
SIZES = {"5v5": (1, 60), "10v10": (2, 100)}
"""Packs per team and edge of the maps [vox], by the first word of a name."""
OPPONENTS = {
    "5v5": ("trivial", "easy", "medium", "hard", "expert", "champion", SELF_PLAY),
    "10v10": ("easy", "medium", "hard", "expert", SELF_PLAY),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """One benchmark task."""

    name: str
    """``<size>-<opponent>-v<version>``; its Gymnasium id is ``echelon/<name>``."""
    packs: int
    """Packs of five mechs per team."""
    edge: int
    """Edge of the maps [vox]."""
    opponent: str

    def config(self) -> "EnvConfig":
        from echelon.config import EnvConfig, RewardConfig, WorldConfig

        return EnvConfig(
            world=WorldConfig(size_x=self.edge, size_y=self.edge, size_z=20, fairness="path"),
            num_packs=self.packs,
            gamma=0.99,
            truncation_bootstraps=False,
            reward=RewardConfig(approach=2.0, damage=0.01, death=-1.0, win=2.0, loss=-2.0),
        )


TASKS = {
    name: Task(name=name, packs=packs, edge=edge, opponent=opponent)
    for size, (packs, edge) in SIZES.items()
    for opponent in OPPONENTS[size]
    for name in [f"{size}-{opponent}-v1"]
}
"""All tasks by name."""


def find_task(name: str) -> Task:
    """Return the task of a name, with or without ``echelon/``; ``ValueError`` where there is none."""
    task = TASKS.get(name.removeprefix(f"{NAMESPACE}/"))
    if task is None:
        raise ValueError(f"task {name!r} does not exist, expected one of {', '.join(TASKS)}")
    return task


def register() -> None:
    from gymnasium.envs import registration

    for name in TASKS:
        if f"{NAMESPACE}/{name}" not in registration.registry:
            with registration.namespace(NAMESPACE):
                registration.register(
                    id=name, vector_entry_point="echelon.training.task_env:make_vec", kwargs={"task": name}
                )


register()
