"""Policies that act without the cost of starting each operation: traced on a CPU, stacked on a GPU.

A policy that acts for a few mechs spends most of its time between operations, and threads that run several policies
wait for the interpreter lock. A traced policy needs neither: it runs the same operations in the same order on the same
parameters, also after those have changed in place. Policies are traced on a CPU only; elsewhere ``policy.act`` is used.
PyTorch never frees a trace (about 6 MB), so policies of one architecture share one, whose arguments are their
parameters.

On a GPU eight snapshots one after another take eight times as long as one, since each is too small to fill the device.
``PolicyStack`` stacks the parameters of one architecture along a new first axis and maps every operation over it.

Shapes: ``G policy, B or R row, D column, A action, H recurrent state, W noise``.
"""

import copy
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from echelon.rl.build import FlatPolicy
from echelon.rl.host_program import HostPolicy, has_program
from echelon.rl.lstm_state import LSTMState
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.regime import HOST, TRACED, WITHOUT_KERNELS, set_regime, sharing_weights
from echelon.rl.suite_model import CombatSuiteActorCritic

TRACEABLE_CORES = (ActorCriticLSTM, CombatSuiteActorCritic)
"""Networks without a branch on data; a user's own network may have one, so it is not traced."""
EXAMPLE_ROWS = 8
"""Rows of the example inputs; the trace accepts any number."""
_MODULE_ATTRIBUTES = vars(nn.Module()).keys() - {"training"}
"""Attributes that every module has: its tensors, its parts and its hooks."""


Act = Callable[[Tensor, LSTMState, Tensor | None, Tensor | None], tuple[Tensor, LSTMState]]
"""``FlatPolicy.act`` of observations ``[B, D]``, state ``[1, B, H]``, ``done [B]`` and noise ``[B, W]`` or none."""
Sample = Callable[[Tensor, LSTMState, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, LSTMState]]
"""``FlatPolicy.sample`` of observations ``[B, D]``, state ``[1, B, H]``, ``done [B]`` and noise ``[B, W]``."""

_traces: dict[Hashable, Any] = {}
"""Traces by what they depend on; the entries are as few as architectures met."""


def architecture(policy: nn.Module) -> Hashable:
    """Return all that a trace of ``policy`` depends on except the values of its parameters and buffers.

    It has each module's class and plain attributes, and each tensor's shape and type. A list of the policy's own
    parameters is described by their names. A policy with an attribute that cannot be compared, such as another tensor,
    equals no other policy.
    """
    tensors = _tensors(policy)
    names = {id(tensor): name for name, tensor in tensors.items()}
    modules = tuple((name, type(m), _attributes(m, names)) for name, m in policy.named_modules())
    return modules, tuple((name, tuple(t.shape), t.dtype) for name, t in tensors.items())


def _attributes(module: nn.Module, names: dict[int, str]) -> Hashable:
    if type(module).__module__.startswith("torch.nn"):
        return module.extra_repr(), module.training
    own = {name: value for name, value in vars(module).items() if name not in _MODULE_ATTRIBUTES}
    return tuple((name, _described(value, names)) for name, value in sorted(own.items()))


def _described(value: Any, names: dict[int, str]) -> Hashable:
    if _holds_own_tensors(value, names):
        return tuple(names[id(part)] for part in value)
    if isinstance(value, Tensor):
        return object()
    try:
        hash(value)
    except TypeError:
        described = repr(value)
        by_value = "tensor(" not in described and " at 0x" not in described
        return described if by_value else object()
    return value


def _holds_own_tensors(value: Any, names: Mapping[int, Any]) -> bool:
    return isinstance(value, list) and bool(value) and all(id(part) in names for part in value)


def _tensors(policy: nn.Module) -> dict[str, Tensor]:
    return {**dict(policy.named_parameters()), **dict(policy.named_buffers())}


def _act(policy: FlatPolicy, obs: Tensor, state: LSTMState, *arguments: Tensor) -> tuple[Tensor, ...]:
    action, after = policy.act(obs, state, *arguments)
    return action, *after


def _sample(policy: FlatPolicy, obs: Tensor, state: LSTMState, *arguments: Tensor) -> tuple[Tensor, ...]:
    action, logprob, value, after = policy.sample(obs, state, *arguments)
    return action, logprob, value, *after


def _traced(
    policy: FlatPolicy, call: Callable[..., tuple[Tensor, ...]], *, with_noise: bool, dtype: torch.dtype | None = None
) -> Callable[..., tuple[Tensor, ...]]:
    """Return ``call`` of ``policy`` as a function of observations ``[B, D]``, both parts of the state and the rest.

    It is the trace of the policy's architecture under autocast to ``dtype``, with the tensors of the policy.
    """
    key = (architecture(policy), call.__name__, with_noise, dtype)
    if key not in _traces:
        arguments = [torch.ones(EXAMPLE_ROWS)]
        if with_noise:
            arguments.append(torch.zeros(EXAMPLE_ROWS, policy.noise_dim))
        _traces[key] = _trace(policy, call, (torch.zeros(EXAMPLE_ROWS, policy.obs_dim), *arguments), dtype)
    return partial(_traces[key], tuple(_tensors(policy).values()))


def _trace(
    policy: FlatPolicy, call: Callable[..., tuple[Tensor, ...]], example: Sequence[Tensor], dtype: torch.dtype | None
) -> Any:
    """Return ``call`` as a function of the tensors of a policy and of plain tensors, the state as two."""
    source = [policy]  # PyTorch keeps the function that it traced, which must not keep the policy

    def step(tensors: Sequence[Tensor], obs: Tensor, h: Tensor, c: Tensor, *arguments: Tensor) -> tuple[Tensor, ...]:
        own = copy.deepcopy(source.pop())  # its tensors become arguments of the trace
        set_regime(own, TRACED)
        _replace_tensors(own, tensors)
        return call(own, obs, LSTMState(h, c), *arguments)

    obs, *arguments = example
    state = policy.initial_state(EXAMPLE_ROWS)
    with torch.inference_mode(), _casts_recorded(dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shapes become constants, as intended
        inputs = (tuple(_tensors(policy).values()), obs, *state, *arguments)
        return torch.jit.trace(step, inputs, check_trace=False)


@contextmanager
def _casts_recorded(dtype: torch.dtype | None) -> Iterator[None]:
    """Let a trace made inside contain the casts of autocast to ``dtype``, if any, as operations of its own."""
    before = torch._C._jit_set_autocast_mode(False)
    try:
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None, cache_enabled=False):
            yield
    finally:
        torch._C._jit_set_autocast_mode(before)


def _replace_tensors(policy: nn.Module, tensors: Sequence[Tensor]) -> None:
    """Put ``tensors``, in the order of ``_tensors``, in the place of the policy's, also in lists of them."""
    new = {id(old): tensor for old, tensor in zip(_tensors(policy).values(), tensors, strict=True)}
    for module in policy.modules():
        lists = [name for name, value in vars(module).items() if _holds_own_tensors(value, new)]
        for name in lists:
            vars(module)[name] = [new[id(old)] for old in vars(module)[name]]
        for stored in cast(tuple[dict[str, Any], ...], (module._parameters, module._buffers)):
            stored.update({name: new[id(old)] for name, old in stored.items() if old is not None})


class TracedPolicies:
    """Traced policies, made on first use and dropped with the policy."""

    def __init__(self) -> None:
        self._acts: dict[bool, WeakKeyDictionary[FlatPolicy, Act]] = {b: WeakKeyDictionary() for b in (False, True)}

    def act_function(self, policy: FlatPolicy, *, stochastic: bool) -> Act:
        if not is_traceable(policy):
            return policy.act
        if policy not in self._acts[stochastic]:
            self._acts[stochastic][policy] = trace_act(policy, stochastic=stochastic)
        return self._acts[stochastic][policy]


def is_traceable(policy: FlatPolicy) -> bool:
    known = type(policy) is FlatPolicy and type(policy.core) in TRACEABLE_CORES
    return known and policy.regime == HOST


def trace_act(policy: FlatPolicy, *, stochastic: bool) -> Act:
    """Return the ``act`` of ``policy``, traced if possible and in evaluation mode; ``stochastic``: with noise."""
    if has_program(policy):
        return HostPolicy(policy)
    if not is_traceable(policy):
        return policy.act
    step = _traced(policy, _act, with_noise=stochastic)

    def act(
        observations: Tensor, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        done = observations.new_zeros(len(observations)) if done is None else done
        optional = () if noise is None else (noise,)
        action, h, c = step(observations, state.h, state.c, done, *optional)
        return action, LSTMState(h, c)

    return act


def trace_sample(policy: FlatPolicy, dtype: torch.dtype | None) -> Sample:
    """Return the ``sample`` of ``policy`` with matrix products in ``dtype``, None for float32; traced if possible.

    An LSTM's kernel casts the weights itself, which no trace contains.
    """
    device = next(policy.parameters()).device.type
    if has_program(policy):
        return HostPolicy(policy).sample
    step = None
    if is_traceable(policy) and (dtype is None or policy.core.mingru is not None):
        step = _traced(policy, _sample, with_noise=True, dtype=dtype)

    def sample(
        observations: Tensor, state: LSTMState, done: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        if step is not None:
            action, logprob, value, h, c = step(observations, state.h, state.c, done, noise)
            return action, logprob, value, LSTMState(h, c)
        with torch.autocast(device, dtype or torch.bfloat16, enabled=dtype is not None):
            return policy.sample(observations, state, done, noise)

    return sample


class _Acting(nn.Module):
    """``FlatPolicy.act`` as a module's call, with the recurrent state as two tensors."""

    def __init__(self, policy: FlatPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(
        self, obs: Tensor, h: Tensor, c: Tensor, done: Tensor, noise: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        action, after = self.policy.act(obs, LSTMState(h, c), done, noise)
        return action, after.h, after.c


class PolicyStack:
    """Frozen policies of one architecture, or one policy of any."""

    def __init__(self, policies: Sequence[FlatPolicy]) -> None:
        """The weights are copied: later changes of the policies are not seen."""
        first = policies[0]
        self.obs_dim, self.noise_dim, self.lstm_hidden_dim = first.obs_dim, first.noise_dim, first.lstm_hidden_dim
        self._acting = _Acting(first)
        self._tensors: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None
        if len(policies) > 1:
            self._acting = _Acting(sharing_weights(first, first.regime._replace(**WITHOUT_KERNELS)))
            with torch.inference_mode(False):
                self._tensors = stack_module_state([_Acting(policy) for policy in policies])

    def act(
        self, obs: Tensor, state: LSTMState, done: Tensor, noise: Tensor | None, policy: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[G, R, A]`` and the next state, two parts ``[G, 1, R, H]``, as ``FlatPolicy.act`` does.

        ``obs [G, R, D]``, ``state`` (parts ``[G, 1, R, H]``), ``done [G, R]`` and ``noise [G, R, W]`` have the rows of
        each policy. With ``policy [C]``, the number of a policy for each of C blocks of rows, they have C blocks.
        """
        if self._tensors is None:
            single = (None if x is None else x[0] for x in (obs, *state, done, noise))
            action, h, c = (x.unsqueeze(0) for x in self._acting(*single))
        else:
            mapped = (0, 0, 0, 0, 0, 0, None if noise is None else 0)
            weights, buffers = self._tensors
            if policy is not None:
                weights, buffers = (
                    {n: x.index_select(0, policy) for n, x in part.items()} for part in (weights, buffers)
                )
            action, h, c = torch.vmap(self._call, mapped)(weights, buffers, obs, *state, done, noise)
        return action, LSTMState(h, c)

    def _call(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], *inputs: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        return functional_call(self._acting, (parameters, buffers), inputs)


def stack_by_architecture(policies: Sequence[FlatPolicy]) -> list[list[int]]:
    """Return the indices of ``policies`` that can act together, in lists whose first indices ascend.

    A policy with an LSTM acts alone, since the LSTM holds its weights in a list that ``functional_call`` does not
    replace. So does a user's own network, since it may have an operation that cannot be mapped.
    """
    found: dict[object, list[int]] = {}
    for index, policy in enumerate(policies):
        known = type(policy) is FlatPolicy and type(policy.core) in TRACEABLE_CORES and policy.core.mingru is not None
        key = architecture(policy) if known else object()
        found.setdefault(key, []).append(index)
    return list(found.values())
