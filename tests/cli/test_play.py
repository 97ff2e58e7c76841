"""``echelon play`` refuses options in one line before it starts a session."""

from __future__ import annotations

import pytest

from echelon.runs import list_runs, runs_home
from echelon_cli import output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--class", "assault"), "class 'assault' does not exist (have: scout, light, medium, heavy)"),
        (("--preset", "nope"), "preset 'nope' does not exist (have: quickstart,"),
        (("--preset", "dual"), "preset 'dual' does not exist, did you mean 'duel'?"),
        (("--speed", "99"), "play option speed is 99.0, expected at most"),
    ],
)
def test_play_refuses_options_before_a_session_starts(echelon, options, message):
    code, out, error = echelon("play", "expert", *options)
    assert (code, out) == (output.USAGE, "") and message in " ".join(error.split()), error
    assert list_runs(runs_home()) == []
