"""Combat suites and the set encoder under their public import path; defined in ``env.suites`` and ``rl.deepset``."""

from echelon.env.layout import SUITE_DESCRIPTOR_DIM
from echelon.env.suites import COMBAT_SUITES, CombatSuiteSpec, SuiteType, build_suite_descriptor, get_suite_for_role
from echelon.rl.deepset import DeepSetEncoder

__all__ = [
    "COMBAT_SUITES", "SUITE_DESCRIPTOR_DIM", "CombatSuiteSpec", "DeepSetEncoder", "SuiteType",
    "build_suite_descriptor", "get_suite_for_role",
]  # fmt: skip
