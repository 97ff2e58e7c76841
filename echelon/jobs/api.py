"""``echelon.train``: a training run as one call in this process."""

import contextlib
from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from echelon.config import RunConfig, require
from echelon.config.presets import get_preset
from echelon.jobs.config_layers import resolve
from echelon.rl.checkpoint import Checkpoint, latest_valid
from echelon.runs import RunNotFoundError, find_run
from echelon.telemetry.events import Event
from echelon.training.loop import RunResult, run

CONFIG_SUFFIX = ".toml"


def train(
    config: RunConfig | Path | str = "quickstart",
    *,
    run_dir: Path | str | None = None,
    resume: Path | str | None = None,
    emit: Callable[[Event], None] = lambda event: None,
    should_stop: Callable[[], int] = lambda: 0,
    **fields: Any,
) -> RunResult:
    """Train until the plan of ``config`` ends and return how it ended.

    ``config`` is a configuration, the name of a preset or a TOML file, as of ``--config``; ``fields`` replace top-level
    fields of it (``num_envs=16``).
    ``emit`` receives each event of the run (``echelon.telemetry.events``). ``should_stop`` is called every environment
    step: 0 continues, 1 saves and ends after this update, 2 ends at once. Checkpoints are written below ``run_dir``,
    nowhere without it; ``resume`` is a checkpoint folder, a run by name (its newest checkpoint), or ``"latest"``, the
    newest checkpoint of ``run_dir``.

    Raises ``ValueError`` naming the field for an impossible configuration.
    """
    if isinstance(config, Path) or (isinstance(config, str) and config.endswith(CONFIG_SUFFIX)):
        config = resolve(file=Path(config)).config
    plan = get_preset(config) if isinstance(config, str) else config
    known = [field.name for field in fields_of(plan)]
    for name in fields:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"try {near[0]!r}" if near else f"expected one of {', '.join(known)}"
            raise ValueError(f"field {name!r} is no field of RunConfig; {hint}")
    if resume is not None and resume != "latest":
        with contextlib.suppress(RunNotFoundError):
            found = latest_valid(find_run(str(resume)).checkpoints).checkpoint
            require(found is not None, "resume", str(resume), "a run with a checkpoint")
            resume = cast(Checkpoint, found).path
    folder = None if run_dir is None else Path(run_dir)
    return run(replace(plan, **fields), emit, should_stop, run_dir=folder, resume=resume)
