"""A teacher's part in training: which phase it is, and where the learner acts.

While imitating, the learner is trained on what the teacher would do in the states of the rollout (dataset aggregation;
Ross et al., 2011), in a growing share of the environments states that the learner itself reaches. Then PPO continues
from there, with an imitation loss that fades. Everything follows the progress of the plan, so a resumed run continues
in the same phase.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.config import TeacherConfig
from echelon.training.rollout import RolloutBuffer

IMITATION_DECAY = 0.85
"""Progress of the learning-rate schedule at the end of the imitation; the schedule begins again with PPO."""
GOLDEN_RATIO = (5.0**0.5 - 1.0) / 2.0
"""Fractional parts of its multiples are spread evenly, however many there are."""


class Teacher(ABC):
    """Source of the labels of a rollout; ``echelon.training.teachers`` has scripted levels and policies."""

    def set_active(self, active: bool) -> None:  # noqa: B027
        """Set whether the coming steps are labelled; then every step needs a ``label`` before it."""

    @abstractmethod
    def label(self, obs: Tensor, done: Tensor, labels: Tensor) -> None:
        """Write the teacher's actions into ``labels [N, A]`` in the state that learners observe as ``obs [N, D]``.

        ``done [N]`` is 1 where the step starts an episode.
        """

    def relabel(self, buffer: RolloutBuffer, rows: Tensor, next_done: Tensor) -> None:  # noqa: B027
        """Change what ``rows [N]``, in which it acted, observed; ``next_done [N]`` is 1 after the end of an episode."""

    def carry(self) -> dict[str, Tensor]:
        """Return the tensors that the next label depends on, by name, for a checkpoint."""
        return {}

    def load_carry(self, carry: dict[str, Tensor]) -> None:  # noqa: B027
        """Continue from what ``carry`` returned."""


@dataclass(frozen=True)
class Teaching:
    """The teacher's part in one update; the defaults are those of a run without a teacher."""

    imitates: bool = False
    """Only imitation and value regression; else PPO."""
    has_labels: bool = False
    """Whether the teacher's actions are recorded and enter the loss."""
    learner_share: float = 1.0
    """Share of the environments in which the learner acts."""
    coef: float = 0.0
    """Coefficient of the imitation loss."""
    lr_factor: float = 1.0
    """Factor on the learning rate."""
    lr_progress: float = 0.0
    """Progress of the learning-rate schedule."""


def teaching_at(cfg: TeacherConfig, progress: float) -> Teaching:
    """Return the teacher's part at ``progress`` in [0, 1] through training."""
    if not cfg.policy:
        return Teaching(lr_progress=progress)
    if progress < cfg.imitation:
        done = progress / cfg.imitation
        ramp = min(1.0, done / cfg.flown_ramp) if cfg.flown_ramp else 1.0
        return Teaching(
            imitates=True,
            has_labels=True,
            learner_share=cfg.flown * ramp,
            coef=cfg.imitation_coef,
            lr_progress=IMITATION_DECAY * done,
        )
    since = progress - cfg.imitation
    coef = cfg.coef * max(0.0, 1.0 - since / cfg.fade) if cfg.fade else 0.0
    lr_progress = since / (1.0 - cfg.imitation) if cfg.imitation < 1.0 else 1.0
    return Teaching(has_labels=coef > 0.0, coef=coef, lr_factor=cfg.rl_lr_factor, lr_progress=lr_progress)


def environments_of_learner(num_envs: int, first_env: int, share: float) -> Tensor:
    """Return whether the learner acts in each environment ``[E]`` bool, for a ``share`` of all of them.

    It depends on the environment's index among those of all ranks and on the share alone. An environment that the
    learner has keeps it as the share grows. Neighbours differ, so the learner meets self-play and every rank.
    """
    order = (torch.arange(first_env, first_env + num_envs, dtype=torch.float64) * GOLDEN_RATIO).frac()
    return order < share
