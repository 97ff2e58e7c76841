"""The rules of a GPU on a CPU, so that tests run what a GPU runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from echelon.rl import regime


@contextmanager
def device_rules() -> Iterator[None]:
    """Apply the rules of a GPU to the policies that are made or moved inside, in all threads."""
    with mock.patch.object(regime, "HOST", regime.DEVICE):
        yield
