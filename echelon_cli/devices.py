"""The ``--device`` option: validation before any work starts."""


def require_device(name: str) -> None:
    """Raise ``ConfigError`` for a device that does not exist; ``cpu`` is accepted without loading Warp."""
    if name == "cpu":
        return
    from echelon.jobs.config_layers import ConfigError
    from echelon.sim.backend import resolve_device

    try:
        resolve_device(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
