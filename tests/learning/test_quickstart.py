"""Long learning runs: ``pytest -m slow tests/learning``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.config.presets import quickstart
from echelon.telemetry.events import Event, EventEval
from echelon.training.loop import run

STEPS = 2_500_000


@pytest.mark.slow
def test_quickstart_beats_easy_pilots():
    seen: list[Event] = []
    run(replace(quickstart(), total_steps=STEPS, max_minutes=0.0), seen.append, lambda: False)
    evaluations = [e for e in seen if isinstance(e, EventEval)]
    assert evaluations[0].win_rate <= 0.1
    assert evaluations[-1].win_low > 0.5
