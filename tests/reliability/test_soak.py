"""Endurance figures: growth is told from noise; the run itself is marked ``soak``."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.reliability.soak import OPTIONS, soak, summary


def samples(name: str, growth: Callable[[float], float]) -> list[dict]:
    """Return two hours of samples of a process, of which one figure grows and memory swings by 20 MiB."""
    rng = np.random.default_rng(0)
    rows = []
    for t in np.arange(0.0, 7200.0, 10.0):
        figures = {"anonymous_mib": 500.0 + rng.normal(0.0, 20.0), "descriptors": 90, "threads": 9}
        figures[name] += growth(t)
        rows.append({"t": t, "processes": {"server": figures}})
    return rows


GROWTH = {
    "noise": ("anonymous_mib", lambda t: 0.0, True),
    "falling": ("anonymous_mib", lambda t: -30.0 * t / 3600.0, True),
    "growing": ("anonymous_mib", lambda t: 40.0 * t / 3600.0, False),
    "a leak of descriptors": ("descriptors", lambda t: t // 1000.0, False),
    "filled in the first hour": ("anonymous_mib", lambda t: 60.0 * min(t, 3600.0) / 3600.0, True),
}


@pytest.mark.parametrize(("name", "growth", "flat"), GROWTH.values(), ids=GROWTH)
def test_summary_separates_growth_from_noise_in_the_last_hour(name, growth, flat):
    figures = summary(samples(name, growth))
    assert figures.pop(f"server {name}")["flat"] is flat
    assert len(figures) == 2 and all(figure["flat"] for figure in figures.values())


@pytest.mark.soak
def test_soak_of_an_hour_is_flat(tmp_path):
    result = soak(tmp_path, 60.0, OPTIONS)
    assert all(figure["flat"] for figure in result["figures"].values()), result
