"""Highlight reels: the spans around the best-ranked moments, the same as the viewer chooses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from echelon.replay.match_text import result_text, team_name
from echelon.replay.reel import REEL_S, Span, caption_at, choose_spans

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "reel.json"
"""Matches and their spans; ``viewer/tests/reel.test.ts`` reads it too."""


def moment(second: float, rank: int, lead: float = 2.0, tail: float = 1.5) -> dict[str, Any]:
    return {"second": second, "from": second - lead, "to": second + tail, "rank": rank, "caption": f"m{rank}"}


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text()), ids=lambda case: case["name"])
def test_choose_spans_returns_the_golden_spans(case: dict[str, Any]):
    spans = choose_spans(case["moments"], case["seconds"], case["length"])
    assert [list(span) for span in spans] == pytest.approx([pytest.approx(span) for span in case["spans"]])


def test_choose_spans_shows_a_short_match_whole():
    assert choose_spans([moment(5, 1)], 12.0) == [Span(0.0, 12.0)]


def test_choose_spans_contains_the_best_moments_and_the_end_and_fills_the_length():
    moments = [moment(10.0 * rank, rank) for rank in range(1, 12)]
    spans = choose_spans(moments, 300.0)
    covered = [any(a <= row["from"] and row["to"] <= b for a, b in spans) for row in moments]
    assert covered == [True] * 4 + [False] * 7 and spans[-1].end == 300.0
    assert REEL_S - 1 < sum(b - a for a, b in spans) <= REEL_S
    assert all(a < b for a, b in spans) and all(x.end < y.start for x, y in zip(spans, spans[1:], strict=False))


def test_caption_at_returns_the_latest_moment_of_a_time():
    moments = [moment(10.0, 2), moment(12.0, 1)]
    assert [caption_at(moments, at) for at in (9.0, 9.8, 11.9, 14.0, 16.0)] == ["", "m2", "m1", "m1", ""]


def test_match_text_names_teams_and_the_result():
    header = {"teams": [{"name": "a\x1bb", "level": ""}, {"name": "", "level": "heuristic:medium"}], "tick_hz": 20.0}
    assert [team_name(header, team) for team in (0, 1)] == ["a?b", "bot: medium"]
    outcome = {"winner": 1, "reason": "elimination", "ticks": 680, "score": [5.44, 9.81], "alive": [0, 2]}
    assert result_text(header, outcome) == ("Red wins by elimination at 0:34", "zone 5.4 to 9.8, 0 to 2 alive")
