"""Kills, stops and full disks lose nothing and change no result."""

from __future__ import annotations

import pytest

from tests.reliability.storm import storm


@pytest.fixture(autouse=True)
def _child_processes_import_tests(repository, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(repository))


@pytest.mark.parametrize(
    "disturbances", [pytest.param(8, marks=pytest.mark.long), pytest.param(300, marks=pytest.mark.soak)]
)
def test_disturbed_jobs_equal_undisturbed_ones(disturbances):
    result = storm(disturbances, seed=1)
    assert result["wrong"] == [] and sum(result["disturbances"].values()) >= disturbances, result
