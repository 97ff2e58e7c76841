"""Endurance figures: growth is told from noise; the run itself is marked ``soak``."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reliability.soak import soak, summary


def samples(growth_mib_per_hour: float) -> list[dict]:
    """Return two hours of samples of a process whose memory swings by 20 MiB and grows."""
    rng = np.random.default_rng(0)
    rows = []
    for t in np.arange(0.0, 7200.0, 10.0):
        memory = 500.0 + rng.normal(0.0, 20.0) + growth_mib_per_hour * t / 3600.0
        rows.append({"t": t, "processes": {"server": {"anonymous_mib": memory, "descriptors": 90, "threads": 9}}})
    return rows


@pytest.mark.parametrize(("growth", "flat"), [(0.0, True), (-30.0, True), (40.0, False)])
def test_summary_separates_growth_from_noise(growth, flat):
    figures = summary(samples(growth))
    assert figures["server anonymous_mib"]["flat"] is flat
    assert figures["server descriptors"]["flat"] and figures["server threads"]["flat"]


def test_summary_reports_leaked_descriptors():
    rows = samples(0.0)
    for n, row in enumerate(rows):
        row["processes"]["server"]["descriptors"] += n // 100
    assert not summary(rows)["server descriptors"]["flat"]


def test_summary_judges_the_last_hour():
    rows = samples(0.0)
    for row in rows:
        row["processes"]["server"]["anonymous_mib"] += 60.0 * min(row["t"], 3600.0) / 3600.0
    figure = summary(rows)["server anonymous_mib"]
    assert figure["flat"] and figure["per_hour"][1] > 0.0
    slope, low, high = figure["per_hour_in_last_hour"]
    assert low < slope < high and low <= 0.0


@pytest.mark.soak
def test_soak_of_an_hour_is_flat(tmp_path):
    result = soak(tmp_path, 60.0, ["--preset", "quickstart", "--minutes", "1000"])
    assert all(figure["flat"] for figure in result["figures"].values()), result
