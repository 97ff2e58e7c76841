"""Devices that commands are told to play on."""

from __future__ import annotations


def require_device(name: str) -> None:
    """Refuse a device that is not there, before anything is played; the CPU is, and asking would load Warp."""
    if name == "cpu":
        return
    from echelon.jobs.config_layers import ConfigError
    from echelon.sim.backend import resolve_device

    try:
        resolve_device(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
