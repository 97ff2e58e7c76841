"""The suite tables and the 706 layout."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import pytest
import torch

from echelon.env.layout import FLAT_BLOCKS, FLAT_OBS_DIM, SUITE_DESCRIPTOR_DIM, flat_offsets
from echelon.env.suites import COMBAT_SUITES, SuiteType, build_suite_descriptor, get_suite_for_role
from echelon.rl.suite_model import flat_obs_to_suite_obs
from echelon.sim.arsenal import Chassis

LINE = (SuiteType.SCOUT_RECON, SuiteType.LIGHT_SKIRMISH, SuiteType.MEDIUM_ASSAULT, SuiteType.HEAVY_FIRE_SUPPORT)


def test_layout_imports_without_torch_and_warp():
    code = "import sys, echelon, echelon.env.layout, echelon.training; print({'torch', 'warp'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_flat_obs_dim_is_the_sum_of_blocks():
    assert FLAT_OBS_DIM == sum(n for _, n in FLAT_BLOCKS) == 20 * 25 + 20 + 12 * 10 + 12 + 32 + 14 + 8 == 706
    assert flat_offsets()["suite_descriptor"] == (684, 698)


def test_flat_obs_to_suite_obs_consumes_every_column_once():
    flat = torch.arange(2 * FLAT_OBS_DIM, dtype=torch.float32).view(2, FLAT_OBS_DIM)
    obs = flat_obs_to_suite_obs(flat)
    parts = (
        obs.contacts, obs.contact_mask, obs.squad, obs.squad_mask, obs.ego_state, obs.suite_descriptor, obs.panel_stats,
    )  # fmt: skip
    assert [tuple(p.shape) for p in parts] == [(2, 20, 25), (2, 20), (2, 12, 10), (2, 12), (2, 32), (2, 14), (2, 8)]
    assert torch.equal(torch.cat([p.flatten(1) for p in parts], 1), flat)
    assert obs.tail is None


@pytest.mark.parametrize("width", [705, 707])
def test_flat_obs_to_suite_obs_rejects_wrong_width(width):
    with pytest.raises(ValueError, match=f"{width}.*706"):
        flat_obs_to_suite_obs(torch.zeros(1, width))


def test_suite_descriptors_are_14_distinct_unit_interval_values():
    described = {suite: build_suite_descriptor(spec) for suite, spec in COMBAT_SUITES.items()}
    for suite, values in described.items():
        assert len(values) == SUITE_DESCRIPTOR_DIM == 14
        assert all(0.0 <= v <= 1.0 for v in values)
        assert sum(values[:6]) == 1.0 and values[suite] == 1.0
    assert all(a != b for a, b in combinations(described.values(), 2))


def test_suite_descriptor_sensor_range_spans_unit_interval():
    ranges = {suite: build_suite_descriptor(spec)[7] for suite, spec in COMBAT_SUITES.items()}
    assert ranges[SuiteType.SCOUT_RECON] == pytest.approx(1.0)
    assert ranges[SuiteType.HEAVY_FIRE_SUPPORT] == 0.0
    assert ranges[SuiteType.LIGHT_SKIRMISH] == pytest.approx(0.5714, abs=1e-4)
    assert ranges[SuiteType.MEDIUM_ASSAULT] == pytest.approx(0.2857, abs=1e-4)


def test_suite_contact_slots_and_order_issuers():
    slots = {s: COMBAT_SUITES[s].visual_contact_slots for s in LINE}
    assert max(slots, key=slots.__getitem__) == SuiteType.SCOUT_RECON
    assert min(slots, key=slots.__getitem__) == SuiteType.HEAVY_FIRE_SUPPORT
    commanders = {s for s, spec in COMBAT_SUITES.items() if spec.issues_orders}
    assert commanders == {SuiteType.PACK_COMMAND, SuiteType.TACTICAL_COMMAND}


def test_suite_for_role_command_role_overrides_chassis():
    assert [get_suite_for_role(c.name.lower()).suite for c in Chassis] == list(LINE)
    assert get_suite_for_role("heavy", "squad_leader").suite == SuiteType.TACTICAL_COMMAND
    assert get_suite_for_role("scout", "pack_leader").suite == SuiteType.PACK_COMMAND
    assert get_suite_for_role("unheard-of").suite == SuiteType.MEDIUM_ASSAULT
