"""The first opponent of the ladder can be beaten by somebody who flies for the first time."""

import pytest

from tests.bench.newcomer import MATCHES, play_match


@pytest.mark.slow
@pytest.mark.parametrize("person", [0, 1])
def test_newcomer_beats_the_first_opponent_within_three_matches(person):
    winners = (play_match("trivial", "easy", 1000 * person + match)[0] for match in range(MATCHES))
    assert "blue" in winners
