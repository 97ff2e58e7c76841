"""Combat suites and the set encoder under their public import path; defined in ``env.layout`` and ``rl.deepset``."""

from __future__ import annotations

from echelon.env.layout import (
    CONTACT_DIM,
    EGO_DIM,
    FLAT_BLOCKS,
    FLAT_OBS_DIM,
    MAX_CONTACTS,
    MAX_SQUAD,
    PANEL_DIM,
    SQUAD_DIM,
    SUITE_DESCRIPTOR_DIM,
    flat_offsets,
)
from echelon.env.suites import (
    COMBAT_SUITES,
    CombatSuiteSpec,
    FillRule,
    SuiteType,
    build_suite_descriptor,
    get_suite_for_role,
)
from echelon.rl.deepset import DeepSetEncoder

__all__ = [
    "COMBAT_SUITES",
    "CONTACT_DIM",
    "EGO_DIM",
    "FLAT_BLOCKS",
    "FLAT_OBS_DIM",
    "MAX_CONTACTS",
    "MAX_SQUAD",
    "PANEL_DIM",
    "SQUAD_DIM",
    "SUITE_DESCRIPTOR_DIM",
    "CombatSuiteSpec",
    "FillRule",
    "SuiteType",
    "build_suite_descriptor",
    "flat_offsets",
    "get_suite_for_role",
    "DeepSetEncoder",
]
