"""Whether shapes and branches may depend on the values of tensors: on a CPU they may, on a GPU every read is a wait.

Work that reads no value is queued ahead of the device and can be captured as a graph. ``device_rules`` applies the same
rules on a CPU, so that tests run what a GPU runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_device_rules = False


def reads_are_free(device: torch.device) -> bool:
    """Return whether values on ``device`` may decide shapes and branches: on a CPU, outside of ``device_rules``."""
    return device.type == "cpu" and not _device_rules


@contextmanager
def device_rules() -> Iterator[None]:
    """Apply the rules of a GPU on every device, in all threads; what is built inside keeps to them."""
    global _device_rules  # noqa: PLW0603 - threads of a pool must see it
    before, _device_rules = _device_rules, True
    try:
        yield
    finally:
        _device_rules = before
