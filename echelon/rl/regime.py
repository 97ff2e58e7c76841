"""How networks compute where they are: the one place that asks for the device.

On a CPU, values may decide shapes and branches, and an operation costs little more than its work. On a GPU every read
of a value waits for the device; work without reads is queued ahead and can be captured as a graph. A policy takes the
regime of the device that it is on (``FlatPolicy``), and the learner plays and updates by it
(``echelon.training.ppo.execution``).
"""

import copy
import warnings
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)
Kernels = Literal["none", "device"]
"""Plain torch or ``device_kernels``."""


class Regime(NamedTuple):
    """Choices of a network and of its learner that change speed, and results by rounding only."""

    packs: bool
    """Values decide shapes and branches: what is empty, absent or not finite is left out."""
    lstm: Literal["spans", "cells", "unrolled"]
    """One fused LSTM call between episode starts, one fused cell per step, or plain operations per step."""
    captures: bool = False
    """Work can be captured as a CUDA graph."""
    lowers_norms: bool = False
    """Layer norms return the precision of their input, where autocast would return float32."""
    writes_gradients: bool = True
    """Small operations have their gradients written out, which a compiler cannot look into."""
    native: bool = False
    """Programs of ``host_program`` act and train, where there is one for the network."""
    encoder: Kernels = "none"
    """What encodes sets of entities, where widths fit."""
    scan: Kernels = "none"
    """What evaluates a MinGRU, where widths fit."""
    pads_to_buckets: bool = True
    """Packed rows are padded to one of few lengths; a trace computes the padding instead."""


HOST = Regime(packs=True, lstm="spans", native=True)
DEVICE = Regime(packs=False, lstm="cells", lowers_norms=True)
CUDA = DEVICE._replace(captures=True)
TRACED = HOST._replace(pads_to_buckets=False)
"""Traces that run on a CPU only: their shapes depend on their inputs."""
WITHOUT_KERNELS: dict[str, Any] = {"native": False, "encoder": "none", "scan": "none"}
"""Fields of a regime whose operations are to be looked into or mapped."""
EXPORTED = HOST._replace(packs=False, **WITHOUT_KERNELS)


def regime_of(device: torch.device) -> Regime:
    if device.type == "cpu":
        return HOST
    return CUDA._replace(**_kernels_of(device)) if device.type == "cuda" else DEVICE


@cache
def _kernels_of(device: torch.device) -> dict[str, Kernels]:
    """Return the fields of a regime for the kernels that a CUDA device runs, and warn if it runs none."""
    try:
        from echelon.rl import device_kernels

        return dict.fromkeys(device_kernels.operations_on(device), "device")
    except Exception as error:  # no Triton, compiler, header of Python or fitting driver
        reason = str(error).partition("\n")[0]
        text = f"kernels of {device} do not start ({reason}), so training is slower; try a C compiler and python3-dev"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return {}


def compiled(regime: Regime) -> Regime:
    """Return the regime of what ``torch.compile`` evaluates on the device of ``regime``."""
    return regime._replace(packs=False, lstm="unrolled", writes_gradients=False, **WITHOUT_KERNELS)


def set_regime(model: nn.Module, regime: Regime) -> None:
    for module in model.modules():
        if hasattr(module, "regime"):
            module.regime = regime  # pyright: ignore[reportArgumentType]


def sharing_weights(model: Module, regime: Regime) -> Module:
    """Return ``model`` in another regime, with the same parameters and buffers."""
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, tensors)
    set_regime(twin, regime)
    return twin
