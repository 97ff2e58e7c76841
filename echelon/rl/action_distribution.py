"""Distribution over an action: a squashed Gaussian, switches and selectors, each a group of columns.

A *switch* is one column that the simulator reads as on above 0; it is sampled from a Bernoulli distribution. A
*selector* is a run of columns that the simulator reads as one of K choices, sampled from a categorical distribution.
All other columns are read as numbers and sampled from a squashed Gaussian. Sampled switches and selectors are written
as values that the simulator decodes to the same choice, also after quantisation to 1/127, and scored actions are
decoded as ``echelon.sim.kernels.controls`` decodes them, so any action has a log-probability.

Nothing branches on data and no noise is drawn here. Shapes: ``... rows, A action, S selector, K choice, W noise``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.actions import (
    COMM_START,
    ECCM_ABOVE,
    HOSTILE_ONLY,
    OBS_CTRL_START,
    OBS_SORT_DIM,
    QUANTISATION_LEVELS,
    TARGET_DIM,
    TARGET_START,
    TRIGGER_COLUMNS,
    ActionIndex,
    action_names,
)
from echelon.rl import squash
from echelon.rl.action_columns import runs_of, split_runs, take
from echelon.rl.action_score import log_softmax, score_choices, score_numbers, score_switches, take_columns
from echelon.rl.regime import HOST, Regime

UNAVAILABLE = -1e9
"""Logit of a choice that cannot be chosen; finite, so that log-probabilities and gradients stay finite."""

LABEL_LIMIT = 0.97
"""Magnitude to which a label's numbers are clipped: the border is infinitely far away before tanh."""
OFF_BELOW_ZERO = (ActionIndex.VERTICAL,)
"""Columns of numbers that the simulator reads as off up to 0; a label of 0 means off, not a number near 0."""
LABEL_STD = 0.6
"""Standard deviation before tanh of the Gaussian that a label's numbers are scored with."""


class ActionParameters(NamedTuple):
    """Parameters of the distribution per row."""

    location: Tensor
    """Mean before tanh of a Gaussian column and logit of a switch ``[..., A]``; unused in the columns of selectors."""
    log_std: Tensor
    """Log standard deviation before tanh of a Gaussian column ``[..., A]``; unused elsewhere."""
    logits: Tensor | None
    """Logits of the selectors' choices ``[..., S, K]`` from ``ActionLayout.stack``; None without selectors."""


class Entropies(NamedTuple):
    """Entropy per row [nat] of the Gaussian columns, of the switches and of the selectors, each ``[...]``."""

    continuous: Tensor
    switches: Tensor
    selectors: Tensor

    @property
    def discrete(self) -> Tensor:
        """Return the entropy ``[...]`` of switches and selectors."""
        return self.switches + self.selectors

    def total(self) -> Tensor:
        """Return the entropy ``[...]`` of the whole action."""
        return self.continuous + self.discrete


class Selector(NamedTuple):
    """A run of columns that means one of K choices."""

    name: str
    start: int
    """First column."""
    codes: tuple[tuple[float, ...], ...]
    """Columns written for each choice ``[K, columns]``."""
    decode: Callable[[Tensor], Tensor]
    """Returns the choice ``[...]`` that quantised columns ``[..., columns]`` mean."""
    fallback: int | None = None
    """Choice that an unavailable one has the effect of; None where every choice is always available."""

    @property
    def end(self) -> int:
        """One past the last column."""
        return self.start + len(self.codes[0])


def _one_of(count: int) -> tuple[tuple[float, ...], ...]:
    """Return the codes of ``count`` choices by the largest column: 1 in the chosen column, -1 in the others."""
    return tuple(tuple(1.0 if i == choice else -1.0 for i in range(count)) for choice in range(count))


def _decode_target(columns: Tensor) -> Tensor:
    largest, slot = columns.max(-1)
    return torch.where(largest > 0, slot, TARGET_DIM)


def _decode_secondary(columns: Tensor) -> Tensor:
    return (columns[..., 0] > 0).long() + (columns[..., 0] > ECCM_ABOVE).long()


TARGET = Selector("target", TARGET_START, (*_one_of(TARGET_DIM), (-1.0,) * TARGET_DIM), _decode_target, TARGET_DIM)
"""Contact slots, then no target."""
SORT = Selector("sort", OBS_CTRL_START, _one_of(OBS_SORT_DIM), lambda columns: columns.argmax(-1))
"""Orders of the contact display."""
SECONDARY = Selector("secondary", ActionIndex.SECONDARY, ((-1.0,), (0.25,), (1.0,)), _decode_secondary)
"""Off, ECM, ECCM; both latter are the trigger of mechs without electronic warfare."""
SWITCHES = (ActionIndex.PRIMARY, ActionIndex.VENT, ActionIndex.TERTIARY, ActionIndex.SPECIAL, HOSTILE_ONLY)
"""Columns that the simulator reads as on above 0 and nothing else."""


class ActionLayout(NamedTuple):
    """Columns that are not sampled from the Gaussian."""

    switches: tuple[int, ...] = ()
    selectors: tuple[Selector, ...] = ()

    def fits(self, action_dim: int) -> bool:
        """Return whether an action of this width has all columns of the layout."""
        return all(column < action_dim for column in self.switches) and all(s.end <= action_dim for s in self.selectors)

    @property
    def choices(self) -> int:
        """Choices of the selector with the most of them."""
        return max((len(selector.codes) for selector in self.selectors), default=0)

    @property
    def padded_choices(self) -> int:
        """Choices of all selectors, those before the last padded to the most choices."""
        return self.choices * (len(self.selectors) - 1) + len(self.selectors[-1].codes) if self.selectors else 0

    def stack(self, logits: Sequence[Tensor]) -> Tensor:
        """Return the logits of every selector, each ``[..., choices]``, as ``[..., S, K]``; others are unavailable."""
        absent = logits[0].new_full(logits[0].shape, UNAVAILABLE)
        padded = [part for own in logits for part in (own, absent[..., : self.choices - own.shape[-1]])]
        return torch.cat(padded, -1).unflatten(-1, (len(self.selectors), self.choices))


GAUSSIAN = ActionLayout()
HYBRID = ActionLayout(switches=SWITCHES, selectors=(TARGET, SECONDARY, SORT))


def discrete_choices(action: Tensor) -> dict[str, Tensor]:
    """Return the choice ``[...]`` of every switch and selector that ``action [..., A]`` has, by name."""
    read, names = quantised(action), action_names(0)
    width = action.shape[-1]
    switches = {names[column]: (read[..., column] > 0).long() for column in HYBRID.switches if column < width}
    return switches | {s.name: s.decode(read[..., s.start : s.end]) for s in HYBRID.selectors if s.end <= width}


def quantised(action: Tensor) -> Tensor:
    """Return ``action [...]`` clipped to [-1, 1] and rounded to 1/127, as the simulator reads it."""
    clipped = squash.full_precision(action).nan_to_num(0.0, 0.0, 0.0).clamp(-1.0, 1.0)
    return torch.round(clipped * QUANTISATION_LEVELS) / QUANTISATION_LEVELS


class _Normalised(NamedTuple):
    """Discrete parameters with their normalising constants."""

    switches: tuple[Tensor, Tensor] | None
    """Logits of the switches and their softplus, each ``[..., switches]``."""
    log_choice: Tensor | None
    """Log-probabilities of choices ``[..., S, K]``."""


class ActionDistribution(nn.Module):
    """Samples and scores actions ``[..., action_dim]`` with the columns of a layout; it has no parameters."""

    regime: Regime = HOST

    def __init__(self, action_dim: int, layout: ActionLayout = GAUSSIAN) -> None:
        super().__init__()
        if not layout.fits(action_dim):
            raise ValueError(f"action has {action_dim} columns, too few for the switches and selectors of its layout")
        self.action_dim, self.layout = action_dim, layout
        self.noise_dim = action_dim + layout.choices
        """Standard normal numbers of a sample: one per column, then one per choice of the first selector. The other
        selectors use the numbers of selectors' columns, so that the noise of a layout is a prefix of a wider one's."""
        selected = [c for s in layout.selectors for c in range(s.start, s.end)]
        taken = {*layout.switches, *selected}
        numbers = [column for column in range(action_dim) if column not in taken]
        self._gaussian = runs_of(numbers)
        labelled = [column for column in numbers if column < COMM_START]
        self._labelled = runs_of(labelled)
        off_below_zero = torch.tensor([column in OFF_BELOW_ZERO for column in labelled])
        self.register_buffer("_off_below_zero", off_below_zero, persistent=False)
        self._switches, self._selected = runs_of(layout.switches), runs_of(sorted(selected))
        enough = layout.choices + len(selected) >= layout.padded_choices
        assert enough, "a selector has more choices than there are numbers"
        for selector in layout.selectors:
            self.register_buffer(f"_{selector.name}_codes", torch.tensor(selector.codes), persistent=False)

    def sample(self, parameters: ActionParameters, noise: Tensor) -> Tensor:
        """Return the action ``[..., A]`` in [-1, 1] drawn with standard normal ``noise [..., W]``."""
        location, log_std, logits = parameters
        own = noise[..., : self.action_dim]
        values = squash.sample(*(take(x, self._gaussian) for x in (location, log_std, own)))
        on = None
        if self._switches:
            on = torch.special.ndtr(take(own, self._switches)) < torch.sigmoid(take(location, self._switches))
        if logits is not None:
            logits = logits + self._gumbel(noise)
        return self._write(values, on, logits)

    def mode(self, parameters: ActionParameters) -> Tensor:
        """Return the action ``[..., A]`` of the Gaussian's squashed mean, likelier switches and likeliest choices."""
        values = squash.squash(take(parameters.location, self._gaussian))
        on = take(parameters.location, self._switches) > 0 if self._switches else None
        return self._write(values, on, parameters.logits)

    def chances(self, parameters: ActionParameters) -> Tensor:
        """Return the probabilities ``[..., C]`` of ``CHANCES``; those of targets are 0 in a layout without a selector.

        A switch counts as on if its column is above 0, or its selector chooses anything but off.
        """
        location, log_std = squash.full_precision(parameters.location), squash.full_precision(parameters.log_std)
        shares: dict[str, Tensor] = {}
        if parameters.logits is not None:
            share = squash.full_precision(parameters.logits).softmax(-1)
            shares = {selector.name: share[..., i, :] for i, selector in enumerate(self.layout.selectors)}
        target = shares.get(TARGET.name, location.new_zeros(TARGET_DIM + 1))[..., : TARGET_DIM + 1]
        parts = list(target.expand(*location.shape[:-1], TARGET_DIM + 1).unbind(-1))
        for column in TRIGGER_COLUMNS:
            if column in self.layout.switches:
                parts.append(torch.sigmoid(location[..., column]))
            elif column == SECONDARY.start and SECONDARY.name in shares:
                parts.append(1.0 - shares[SECONDARY.name][..., 0])
            else:
                parts.append(torch.special.ndtr(location[..., column] * torch.exp(-log_std[..., column])))
        return torch.stack(parts, -1)

    def log_prob(self, parameters: ActionParameters, action: Tensor) -> Tensor:
        """Return the log-probability ``[...]`` of ``action [..., A]``: a density in its Gaussian columns."""
        return self._log_prob(parameters, action, self._normalised(parameters))

    def imitation_loss(self, parameters: ActionParameters, label: Tensor) -> Tensor:
        """Return the negative log-likelihood ``[...]`` of a teacher's action ``label [..., A]``, up to a constant.

        Switches and selectors are scored as in ``log_prob``. Numbers are scored before tanh with a Gaussian of
        ``LABEL_STD`` around the mean, so the policy's standard deviation gets no gradient. The message is not scored.
        Jets that are off have the label -1: samples around 0 would fire them half of the time.
        """
        read = quantised(label)
        numbers = take(read, self._labelled)
        off = self.get_buffer("_off_below_zero") & (numbers <= 0)
        u = squash.unsquash(torch.where(off, -1.0, numbers).clamp(-LABEL_LIMIT, LABEL_LIMIT))
        mean = squash.full_precision(take(parameters.location, self._labelled))
        loss = 0.5 * ((u - mean) / LABEL_STD).square().sum(-1)
        for part in self._discrete_parts(read, parameters.logits, self._normalised(parameters)):
            loss = loss - part
        return loss

    def entropy(self, parameters: ActionParameters, noise: Tensor) -> Entropies:
        """Return the entropies ``[...]``; that of the Gaussian is estimated with standard normal ``noise [..., A]``."""
        return self._entropy(parameters, noise, self._normalised(parameters))

    def score(self, parameters: ActionParameters, action: Tensor, noise: Tensor) -> tuple[Tensor, Entropies]:
        """Return ``log_prob`` and ``entropy`` ``[...]`` of ``action`` and ``noise [..., A]`` in one pass."""
        if not self.regime.writes_gradients:
            discrete = self._normalised(parameters)
            return self._log_prob(parameters, action, discrete), self._entropy(parameters, noise, discrete)
        location, log_std, logits = parameters
        numbers = (take_columns(x, self._gaussian) for x in (location, log_std))
        inputs = (take(x, self._gaussian) for x in (action, noise[..., : self.action_dim]))
        logprob, continuous = score_numbers(*numbers, *inputs)
        switches = selectors = torch.zeros_like(continuous)
        if self.layout is not GAUSSIAN:
            read = quantised(action)
            if self._switches:
                on = take(read, self._switches) > 0
                part, switches = score_switches(take_columns(location, self._switches), on)
                logprob = logprob + part
            if logits is not None:
                part, selectors = score_choices(logits, self._decode(read, logits))
                logprob = logprob + part
        return logprob, Entropies(continuous, switches, selectors)

    def _normalised(self, parameters: ActionParameters) -> _Normalised:
        """Return the logits of switches and choices with their normalising constants."""
        switches, logits = None, parameters.logits
        if self._switches:
            logit = squash.full_precision(take(parameters.location, self._switches))
            switches = (logit, functional.softplus(logit))
        return _Normalised(switches, None if logits is None else log_softmax(logits))

    def _log_prob(self, parameters: ActionParameters, action: Tensor, discrete: _Normalised) -> Tensor:
        location, log_std, logits = parameters
        total = squash.log_prob(*(take(x, self._gaussian) for x in (location, log_std, action)))
        if self.layout is GAUSSIAN:
            return total
        read = quantised(action)
        for part in self._discrete_parts(read, logits, discrete):
            total = total + part
        return total

    def _discrete_parts(self, read: Tensor, logits: Tensor | None, discrete: _Normalised) -> list[Tensor]:
        """Return the log-probabilities ``[...]`` of switches and of selectors in ``read [..., A]``, those there are."""
        parts = []
        if discrete.switches is not None:
            logit, softplus = discrete.switches
            on = take(read, self._switches) > 0
            parts.append((logit * on - softplus).sum(-1))
        if discrete.log_choice is not None and logits is not None:
            parts.append(discrete.log_choice.gather(-1, self._decode(read, logits)).sum((-2, -1)))
        return parts

    def _entropy(self, parameters: ActionParameters, noise: Tensor, discrete: _Normalised) -> Entropies:
        location, log_std, _ = parameters
        own = noise[..., : self.action_dim]
        continuous = squash.entropy(*(take(x, self._gaussian) for x in (location, log_std, own)))
        switches = selectors = torch.zeros_like(continuous)
        if discrete.switches is not None:
            logit, softplus = discrete.switches
            switches = (softplus - logit * torch.sigmoid(logit)).sum(-1)
        if discrete.log_choice is not None:
            selectors = -(discrete.log_choice.exp() * discrete.log_choice).sum((-2, -1))
        return Entropies(continuous, switches, selectors)

    def _decode(self, read: Tensor, logits: Tensor) -> Tensor:
        """Return the choice ``[..., S, 1]`` of every selector in quantised columns ``read [..., A]``."""
        choices = []
        for index, selector in enumerate(self.layout.selectors):
            choice = selector.decode(read[..., selector.start : selector.end]).unsqueeze(-1)
            if selector.fallback is not None:
                available = logits[..., index, :].gather(-1, choice) > UNAVAILABLE
                choice = torch.where(available, choice, selector.fallback)
            choices.append(choice)
        return torch.stack(choices, -2)

    def _gumbel(self, noise: Tensor) -> Tensor:
        """Return Gumbel draws for the choices of every selector ``[..., S, K]``, 0 for choices that none has."""
        selectors, choices = len(self.layout.selectors), self.layout.choices
        extra = noise[..., self.action_dim : self.noise_dim]
        draws = squash.gumbel(torch.cat([extra, take(noise, self._selected)], -1))
        return functional.pad(draws, (0, selectors * choices - draws.shape[-1])).unflatten(-1, (selectors, choices))

    def _write(self, values: Tensor, on: Tensor | None, scores: Tensor | None) -> Tensor:
        """Return the action of Gaussian ``values``, switches ``on`` and the best-scored choices, in column order."""
        pieces = split_runs(values, self._gaussian)
        if on is not None:
            pieces |= split_runs(on.to(values.dtype) * 2.0 - 1.0, self._switches)
        if scores is not None:
            choices = scores.argmax(-1)
            for index, selector in enumerate(self.layout.selectors):
                codes = self.get_buffer(f"_{selector.name}_codes")
                pieces[selector.start] = functional.embedding(choices[..., index], codes)
        return values if len(pieces) == 1 else torch.cat([pieces[first] for first in sorted(pieces)], -1)
