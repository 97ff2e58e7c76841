"""Distribution over an action: a squashed Gaussian, switches and selectors, each a group of columns.

A *switch* is one column that the simulator reads as on above 0; it is sampled from a Bernoulli distribution. A
*selector* is a run of columns that the simulator reads as one of K choices, sampled from a categorical distribution.
All other columns are read as numbers and sampled from a squashed Gaussian. Sampled switches and selectors are written
as values that the simulator decodes to the same choice, also after quantisation to 1/127, and scored actions are
decoded as ``echelon.sim.kernels.controls`` decodes them, so any action has a log-probability.

Nothing branches on data and no noise is drawn here. Shapes: ``... rows, A action, S selector, K choice, W noise``.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from echelon.actions import (
    ACTION_NAMES,
    ECCM_ABOVE,
    HOSTILE_ONLY,
    OBS_CTRL_START,
    OBS_SORT_DIM,
    QUANTISATION_LEVELS,
    SWITCH_COLUMNS,
    TARGET_DIM,
    TARGET_START,
    ActionIndex,
)
from echelon.rl import squash
from echelon.rl.regime import HOST, Regime

UNAVAILABLE = -1e9
"""Logit of a choice that cannot be chosen; finite, so that log-probabilities and gradients stay finite."""

LABEL_LIMIT = 0.97
"""Magnitude to which a label's numbers are clipped: the border is infinitely far away before tanh."""
OFF_BELOW_ZERO = (ActionIndex.VERTICAL,)
"""Columns of numbers that the simulator reads as off up to 0; a label of 0 means off, not a number near 0."""
LABEL_STD = 0.6
"""Standard deviation before tanh of the Gaussian that a label's numbers are scored with."""

LOG_PROB_MIN = -80.0
"""Log-probability of an unavailable choice; the exponential of a smaller one underflows, which CPUs compute slowly."""
NO_PROBABILITY = 1e-30
"""Probability below which a choice has no gradient: products with it would underflow."""
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

Run = tuple[int, int]
"""First and one-past-last of consecutive columns, read and written as slices: indices would be copied to the device."""
Scores = tuple[Tensor, Tensor]
"""Log-probability and entropy ``[...]``."""


class ActionParameters(NamedTuple):
    """Parameters of the distribution per row."""

    location: Tensor
    """Mean before tanh of a Gaussian column and logit of a switch ``[..., A]``; unused in the columns of selectors."""
    log_std: Tensor
    """Log standard deviation before tanh of a Gaussian column ``[..., A]``; unused elsewhere."""
    logits: Tensor | None
    """Logits of the selectors' choices ``[..., S, K]`` from ``ActionLayout.stack``; None without selectors."""


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
        return all(column < action_dim for column in self.switches) and all(s.end <= action_dim for s in self.selectors)

    @property
    def choices(self) -> int:
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
    read, names = quantised(action), ACTION_NAMES
    width = action.shape[-1]
    switches = {names[column]: (read[..., column] > 0).long() for column in HYBRID.switches if column < width}
    return switches | {s.name: s.decode(read[..., s.start : s.end]) for s in HYBRID.selectors if s.end <= width}


def quantised(action: Tensor) -> Tensor:
    """Return ``action [...]`` clipped to [-1, 1] and rounded to 1/127, as the simulator reads it."""
    clipped = squash.full_precision(action).nan_to_num(0.0, 0.0, 0.0).clamp(-1.0, 1.0)
    return torch.round(clipped * QUANTISATION_LEVELS) / QUANTISATION_LEVELS


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
        self.gaussian = runs_of(numbers)
        off_below_zero = torch.tensor([column in OFF_BELOW_ZERO for column in numbers])
        self.register_buffer("_off_below_zero", off_below_zero, persistent=False)
        self.switches, self._selected = runs_of(layout.switches), runs_of(sorted(selected))
        enough = layout.choices + len(selected) >= layout.padded_choices
        assert enough, "a selector has more choices than there are numbers"
        drawn = [*range(action_dim, self.noise_dim), *sorted(selected)]
        each = [range(layout.choices * i, layout.choices * i + len(s.codes)) for i, s in enumerate(layout.selectors)]
        self.draws = [drawn[i] for choices in each for i in choices]
        """Column of the noise that each choice of each selector is drawn with."""
        for selector in layout.selectors:
            self.register_buffer(f"_{selector.name}_codes", torch.tensor(selector.codes), persistent=False)

    def sample(self, parameters: ActionParameters, noise: Tensor) -> Tensor:
        """Return the action ``[..., A]`` in [-1, 1] drawn with standard normal ``noise [..., W]``."""
        location, log_std, logits = parameters
        own = noise[..., : self.action_dim]
        values = squash.sample(*(take(x, self.gaussian) for x in (location, log_std, own)))
        on = None
        if self.switches:
            on = torch.special.ndtr(take(own, self.switches)) < torch.sigmoid(take(location, self.switches))
        if logits is not None:
            logits = logits + self._gumbel(noise)
        return self._write(values, on, logits)

    def mode(self, parameters: ActionParameters) -> Tensor:
        """Return the action ``[..., A]`` of the Gaussian's squashed mean, likelier switches and likeliest choices."""
        values = squash.squash(take(parameters.location, self.gaussian))
        on = take(parameters.location, self.switches) > 0 if self.switches else None
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
        for column in SWITCH_COLUMNS:
            if column in self.layout.switches:
                parts.append(torch.sigmoid(location[..., column]))
            elif column == SECONDARY.start and SECONDARY.name in shares:
                parts.append(1.0 - shares[SECONDARY.name][..., 0])
            else:
                parts.append(torch.special.ndtr(location[..., column] * torch.exp(-log_std[..., column])))
        return torch.stack(parts, -1)

    def log_prob(self, parameters: ActionParameters, action: Tensor) -> Tensor:
        """Return the log-probability ``[...]`` of ``action [..., A]``: a density in its Gaussian columns."""
        total = squash.log_prob(*(take(x, self.gaussian) for x in (*parameters[:2], action)))
        if self.layout is GAUSSIAN:
            return total
        for part in self._discrete_parts(parameters, quantised(action)):
            total = total + part
        return total

    def imitation_loss(self, parameters: ActionParameters, label: Tensor) -> Tensor:
        """Return the negative log-likelihood ``[...]`` of a teacher's action ``label [..., A]``, up to a constant.

        Switches and selectors are scored as in ``log_prob``. Numbers are scored before tanh with a Gaussian of
        ``LABEL_STD`` around the mean, so the policy's standard deviation gets no gradient. Jets that are
        off have the label -1: samples around 0 would fire them half of the time.
        """
        read = quantised(label)
        u = self._label_numbers(read)
        mean = squash.full_precision(take(parameters.location, self.gaussian))
        loss = 0.5 * ((u - mean) / LABEL_STD).square().sum(-1)
        for part in self._discrete_parts(parameters, read):
            loss = loss - part
        return loss

    def decoded(self, action: Tensor) -> Tensor:
        """Return what ``score`` reads of actions ``[..., A]``, in float32 for native operations.

        It is numbers before tanh, 1 for a switch that is on, choices, and the logarithm of the slopes of tanh.
        """
        u, borders = squash.unsquash_with_borders(take(action, self.gaussian))
        parts = (u, *self._decoded_choices(action), -squash.log_slope(borders).sum(-1, keepdim=True))
        return torch.cat(parts, -1)

    def decoded_labels(self, label: Tensor) -> Tensor:
        """Return what ``imitation_loss`` reads of a teacher's actions ``[..., A]``, as ``decoded`` does."""
        return torch.cat((self._label_numbers(quantised(label)), *self._decoded_choices(label)), -1)

    def _decoded_choices(self, action: Tensor) -> tuple[Tensor, Tensor]:
        read = quantised(action)
        choices = [s.decode(read[..., s.start : s.end]) for s in self.layout.selectors]
        return (take(read, self.switches) > 0).float(), torch.stack(choices, -1).float()

    def score(self, parameters: ActionParameters, action: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``log_prob`` and entropies ``[...]`` of ``action`` and ``noise [..., A]`` in one pass.

        The entropy of the Gaussian is estimated with standard normal ``noise``.
        """
        written, (location, log_std, logits) = self.regime.writes_gradients, parameters
        columns = take_columns if written else take
        numbers = [columns(x, self.gaussian) for x in (location, log_std)]
        numbers += [take(x, self.gaussian) for x in (action, noise[..., : self.action_dim])]
        logprob, continuous = score_numbers(*numbers, written=written)
        switches = selectors = torch.zeros_like(continuous)
        if self.layout is not GAUSSIAN:
            read = quantised(action)
            if self.switches:
                on = take(read, self.switches) > 0
                part, switches = score_switches(columns(location, self.switches), on, written)
                logprob = logprob + part
            if logits is not None:
                part, selectors = score_choices(logits, self._decode(read, logits), written)
                logprob = logprob + part
        return logprob, continuous + (switches + selectors)

    def _label_numbers(self, read: Tensor) -> Tensor:
        """Return the numbers before tanh of quantised labels ``read [..., A]``."""
        numbers = take(read, self.gaussian)
        off = self.get_buffer("_off_below_zero") & (numbers <= 0)
        return squash.unsquash(torch.where(off, -1.0, numbers).clamp(-LABEL_LIMIT, LABEL_LIMIT))

    def _discrete_parts(self, parameters: ActionParameters, read: Tensor) -> list[Tensor]:
        """Return the log-probabilities ``[...]`` of switches and of selectors in ``read [..., A]``, those there are."""
        parts, logits = [], parameters.logits
        if self.switches:
            logit = squash.full_precision(take(parameters.location, self.switches))
            parts.append(_switch_scores(logit, take(read, self.switches) > 0)[0])
        if logits is not None:
            parts.append(log_softmax(logits).gather(-1, self._decode(read, logits)).sum((-2, -1)))
        return parts

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
        pieces = split_runs(values, self.gaussian)
        if on is not None:
            pieces |= split_runs(on.to(values.dtype) * 2.0 - 1.0, self.switches)
        if scores is not None:
            choices = scores.argmax(-1)
            for index, selector in enumerate(self.layout.selectors):
                codes = self.get_buffer(f"_{selector.name}_codes")
                pieces[selector.start] = functional.embedding(choices[..., index], codes)
        return values if len(pieces) == 1 else torch.cat([pieces[first] for first in sorted(pieces)], -1)


def runs_of(columns: Sequence[int]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for column in map(int, columns):
        if runs and runs[-1][1] == column:
            runs[-1] = (runs[-1][0], column + 1)
        else:
            runs.append((column, column + 1))
    return tuple(runs)


def take(x: Tensor, runs: Sequence[Run]) -> Tensor:
    """Return the columns of ``x [..., A]`` in ``runs``."""
    if len(runs) == 1:
        first, end = runs[0]
        return x if end - first == x.shape[-1] else x[..., first:end]
    return torch.cat([x[..., first:end] for first, end in runs], -1) if runs else x[..., :0]


def split_runs(x: Tensor, runs: Sequence[Run]) -> dict[int, Tensor]:
    """Return ``x [..., all columns of runs]`` divided into its runs, by first column."""
    pieces = x.split([end - first for first, end in runs], -1)
    return {first: piece for (first, _), piece in zip(runs, pieces, strict=True)}


def put(x: Tensor, values: Tensor, runs: Sequence[Run]) -> None:
    """Write ``values [..., all columns of runs]`` into the columns of ``x [..., A]`` in ``runs``."""
    for first, piece in split_runs(values, runs).items():
        x[..., first : first + piece.shape[-1]] = piece


# Log-probability and entropy of the parts of an action in one pass. The parts have few columns, so that automatic
# differentiation would spend more time between operations than in them: gradients are ``written`` out, except for a
# compiler. Shapes: ``G column of numbers, W switch, S selector, K choice``.


def score_numbers(mean: Tensor, log_std: Tensor, action: Tensor, noise: Tensor, *, written: bool) -> Scores:
    """Return ``squash.log_prob`` of ``action [..., G]`` and ``squash.entropy`` with ``noise [..., G]``."""
    if not written:
        return squash.log_prob(mean, log_std, action), squash.entropy(mean, log_std, noise)
    return _Numbers.apply(*map(squash.full_precision, (mean, log_std, action, noise)))  # type: ignore[return-value]


def score_switches(logit: Tensor, on: Tensor, written: bool) -> Scores:
    """Return log-probability and entropy ``[...]`` of switches with ``logit [..., W]`` that are ``on [..., W]``."""
    logit = squash.full_precision(logit)
    return _Switches.apply(logit, on) if written else _switch_scores(logit, on)[:2]  # type: ignore[return-value]


def score_choices(logits: Tensor, choice: Tensor, written: bool) -> Scores:
    """Return log-probability and entropy ``[...]`` of choices ``[..., S, 1]`` from ``logits [..., S, K]``."""
    return _Choices.apply(logits, choice) if written else _choice_scores(logits, choice)[:2]  # type: ignore[return-value]


def _switch_scores(logit: Tensor, on: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probability and entropy ``[...]``, and the share of on ``[..., W]``."""
    softplus, share = functional.softplus(logit), torch.sigmoid(logit)
    return (logit * on - softplus).sum(-1), (softplus - logit * share).sum(-1), share


def _choice_scores(logits: Tensor, choice: Tensor) -> tuple[Tensor, ...]:
    """Return log-probability and entropy ``[...]``; log-shares, shares and their products ``[..., S, K]``."""
    log_share = log_softmax(logits)
    share = log_share.exp()
    weighted = share * log_share
    return log_share.gather(-1, choice).sum((-2, -1)), -weighted.sum((-2, -1)), log_share, share, weighted


def take_columns(x: Tensor, runs: tuple[Run, ...]) -> Tensor:
    """Return ``take(x, runs)`` of ``x [..., A]``, whose gradient is written at once instead of run by run."""
    if len(runs) == 1 and runs[0] == (0, x.shape[-1]):
        return x
    return _Take.apply(x, runs)  # type: ignore[return-value]


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probabilities ``[..., K]``, at least about ``LOG_PROB_MIN``; faster than torch's for few choices."""
    shifted = (logits - logits.detach().amax(-1, keepdim=True)).clamp_min(LOG_PROB_MIN)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()


class _Numbers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_std: Tensor, action: Tensor, noise: Tensor) -> Scores:  # pyright: ignore
        u, borders = squash.unsquash_with_borders(action)
        inverse, std = torch.exp(-log_std), torch.exp(log_std)
        z = (u - mean) * inverse
        gauss = -0.5 * z.square() - log_std - _HALF_LOG_2PI
        drawn = torch.tanh(mean + std * noise)
        slope = (1.0 - drawn * drawn).clamp_min(squash.TANH_EPS)
        ctx.save_for_backward(z, inverse, drawn, slope, std, noise)
        width = (0.5 + _HALF_LOG_2PI) + log_std
        return (gauss - squash.log_slope(borders)).sum(-1), (width + torch.log(slope)).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprob: Tensor, entropy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        z, inverse, drawn, slope, std, noise = ctx.saved_tensors
        logprob, entropy = logprob.unsqueeze(-1), entropy.unsqueeze(-1)
        pull = torch.mul(drawn, entropy).mul_(-2.0).mul_(slope > squash.TANH_EPS)
        mean = torch.addcmul(pull, z * inverse, logprob)
        return mean, (z.square() - 1.0).mul_(logprob).add_(entropy).addcmul_(pull, std * noise), None, None


class _Switches(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logit: Tensor, on: Tensor) -> Scores:  # pyright: ignore
        on = on.to(logit.dtype)
        *scores, share = _switch_scores(logit, on)
        ctx.save_for_backward(logit, on, share)
        return scores[0], scores[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprob: Tensor, entropy: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        logit, on, share = ctx.saved_tensors
        spread = (share - share.square()).mul_(logit).mul_(entropy.unsqueeze(-1))
        return (on - share).mul_(logprob.unsqueeze(-1)).sub_(spread), None


class _Choices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, choice: Tensor) -> Scores:  # pyright: ignore
        logprob, entropy, *parts = _choice_scores(logits, choice)
        ctx.save_for_backward(*parts, choice)
        return logprob, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprob: Tensor, entropy: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        log_share, share, weighted, choice = ctx.saved_tensors
        logprob, entropy = (x.unsqueeze(-1).unsqueeze(-1) for x in (logprob, entropy))
        surprise = (log_share - weighted.sum(-1, keepdim=True)).mul_(entropy).add_(logprob)
        slopes = torch.threshold(share, NO_PROBABILITY, 0.0).mul_(surprise).neg_()
        return slopes.scatter_add_(-1, choice, logprob.expand(choice.shape)), None


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, runs: tuple[Run, ...]) -> Tensor:  # pyright: ignore
        ctx.runs, ctx.shape = runs, x.shape
        return take(x, runs).clone() if len(runs) == 1 else take(x, runs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        slopes = grad.new_zeros(ctx.shape)
        put(slopes, grad, ctx.runs)
        return slopes, None
