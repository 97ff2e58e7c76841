"""The generated TypeScript protocol is up to date, and the schema matches the simulator's constants."""

import pytest

from echelon.env.referee import REASONS, WINNERS
from echelon.replay import schema
from echelon.sim import state
from echelon.sim.arsenal import Cooldown
from echelon.sim.kernels import fire, journal
from tests.golden import assert_golden_text
from tests.replay.typescript import generate


@pytest.mark.golden
def test_golden_typescript_protocol(repository):
    assert_golden_text(repository / "viewer" / "src" / "protocol.gen.ts", generate())


def test_schema_matches_simulator_constants():
    assert schema.REASONS == REASONS and schema.WINNERS == WINNERS
    assert [name.upper() for name in schema.COOLDOWNS] == [c.name for c in Cooldown]
    assert len(schema.EVENTS.columns) == state.JOURNAL_VALUES
    hits = {
        "LEG": fire.HIT_LEG,
        "REAR": fire.HIT_REAR,
        "PAINTED": fire.HIT_PAINTED,
        "SPLASH": journal.SPLASHED,
        "STOPPED": journal.STOPPED,
    }
    assert {flag.name: int(flag) for flag in schema.HitFlag} == {name: int(value) for name, value in hits.items()}
    for kind in ("HIT", "PAINT", "KILL", "ASSIST", "LAUNCH", "IMPACT", "AMS"):
        assert int(getattr(journal, kind)) == schema.EventKind[kind]
