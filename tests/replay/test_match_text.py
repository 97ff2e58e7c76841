"""Names of teams and the result of a match in words."""

from __future__ import annotations

from echelon.replay.match_text import result_text, team_name


def test_match_text_names_teams_and_the_result():
    header = {"teams": [{"name": "a\x1bb", "level": ""}, {"name": "", "level": "heuristic:medium"}], "tick_hz": 20.0}
    assert [team_name(header, team) for team in (0, 1)] == ["a?b", "bot: medium"]
    outcome = {"winner": 1, "reason": "elimination", "ticks": 680, "score": [5.44, 9.81], "alive": [0, 2]}
    assert result_text(header, outcome) == ("Red wins by elimination at 0:34", "zone 5.4 to 9.8, 0 to 2 alive")
