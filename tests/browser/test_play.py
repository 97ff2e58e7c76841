"""Playing in a browser: a match flown with keys and with a gamepad, a recorded match taken over, and continuations."""

import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from echelon.arena.verify import verify
from echelon.server.catalogue import match_id
from tests.arena.recorded_matches import record_matches, small_game
from tests.browser.conftest import DESK, RUN, make_home, served_session
from tests.browser.player import FLYING, LOADED, PACED, state

RECORDING = "(file) => echelon.state.match?.file === file && echelon.complete()"
STEER = """() => {
  const { live, ended } = echelon.play;
  if (!live || ended) return null;
  const { poses, header } = live.match;
  const [dx, dy] = [header.zone[0] - poses.x[live.pilot], header.zone[1] - poses.y[live.pilot]];
  const [far, off] = [Math.hypot(dx, dy), Math.atan2(dy, dx) - poses.yaw[live.pilot]];
  const angle = Math.atan2(Math.sin(off), Math.cos(off));
  const ahead = far > header.zone[2] / 2 && Math.abs(angle) < 1;
  window.visited ||= far < header.zone[2];  // whether the mech has been in the zone
  return { ahead, angle: ahead || far > header.zone[2] / 2 ? angle : 0, stuck: ahead && poses.speed[live.pilot] < 0.5 };
}"""
"""Steers toward the zone by what the cockpit shows, straight; jumps where the mech is stuck."""
GAMEPAD = """() => {
  const pad = {
    connected: true, axes: [0, 0, 0, 0], buttons: Array.from({ length: 16 }, () => ({ value: 0, pressed: false })),
  };
  navigator.getGamepads = () => {
    const { ahead, angle, stuck } = window.steer() ?? { ahead: false, angle: 0, stuck: false };
    pad.axes[1] = ahead ? -1 : 0;
    pad.axes[2] = -Math.max(-1, Math.min(1, 2 * angle));
    pad.buttons[0].value = Number(stuck);
    pad.buttons[7].value = Number(ahead);
    return [pad];
  };
}"""
"""Simulates a gamepad that is steered so."""
MANY_PACKS = """() => {
  const { classList, children } = document.querySelector(".command .roster");
  classList.add("many");
  return children[1].scrollWidth - children[1].clientWidth;
}"""
"""Lays the roster out in two columns, as for many packs; returns by how much they are too wide [CSS px]."""
TURNED = 0.15
"""Angle to the zone that the keys leave [rad]."""


def fly_by_keys(page: Any, until: Callable[[], bool]) -> None:
    """Hold the keys that steer toward the zone until a condition is met or the match has ended."""
    held: set[str] = set()
    while (seen := page.evaluate(STEER)) is not None and not until():
        angle = seen["angle"]
        keys = {"KeyW": seen["ahead"], "Space": seen["stuck"], "KeyQ": angle > TURNED, "KeyE": angle < -TURNED}
        for key, hold in keys.items():
            if hold and key not in held:
                page.keyboard.down(key)
                held.add(key)
            elif key in held and not hold:
                page.keyboard.up(key)
                held.remove(key)
    for key in held:
        page.keyboard.up(key)


def begin_when_drawn(page: Any) -> None:
    """Pause the match that is flown until its first picture is complete, however slow the machine is."""
    page.wait_for_function(FLYING)
    page.keyboard.press("p")
    page.wait_for_function(PACED, arg=True)
    page.wait_for_function("() => echelon.complete()")
    page.keyboard.press("p")
    page.wait_for_function(PACED, arg=False)


@pytest.mark.slow
@pytest.mark.parametrize("gamepad", [False, True], ids=["keys", "gamepad"])
def test_browser_flies_into_the_zone_and_wins(page, tmp_path, gamepad):
    options = {
        "opponent": "trivial", "mates": "hard", "chassis": "light", "size": 40, "packs": 1, "seconds": 24.0, "seed": 3,
        "speed": 0.5,
    }  # fmt: skip
    with served_session(tmp_path, options) as address:
        page.set_viewport_size(DESK)
        page.goto(address)
        begin_when_drawn(page)
        if gamepad:
            page.evaluate(f"() => {{ window.steer = {STEER}; }}")
            page.evaluate(GAMEPAD)
        else:
            fly_by_keys(page, lambda: False)
        page.wait_for_function("() => echelon.play.ended")
        ended = page.evaluate("() => echelon.play.ended")
        assert ended["winner"] == "blue" and page.evaluate("() => visited")
        assert page.evaluate("() => echelon.play.latencies.length") > 0
        assert page.evaluate("() => echelon.play.problem") == ""
        assert verify(tmp_path / ended["source"]["run"] / "replays" / ended["source"]["file"]).ok
        page.get_by_text("Watch the recording").click()
        page.wait_for_function(RECORDING, arg=ended["source"]["file"])
        assert state(page, "flying") is False and page.evaluate("() => echelon.play.problem") == ""


@pytest.mark.long
def test_team_is_commanded_to_the_end_of_its_match(page, tmp_path):
    options = {
        "command": True, "opponent": "trivial", "mates": "hard", "size": 40, "packs": 2, "seconds": 16.0, "seed": 3,
    }  # fmt: skip
    texts = "() => echelon.state.match.commanded.orders.map(({ text }) => text)"
    with served_session(tmp_path, options) as address:
        page.set_viewport_size(DESK)
        page.goto(address.replace("/#", "/?quality=low#"))
        page.wait_for_function("() => echelon.state.flying && echelon.state.match.chunk")
        page.keyboard.press("p")
        page.wait_for_function(PACED, arg=True)
        page.keyboard.press("Shift+Digit2")
        page.keyboard.press("1")
        page.wait_for_function(f"() => ({texts})()[9] === 'hold'")  # at once, also in a pause
        assert page.evaluate(texts)[:5] == [""] * 5
        page.keyboard.press("Escape")
        page.mouse.move(300, 90)
        page.mouse.down()
        page.mouse.move(700, 300, steps=3)
        page.mouse.move(1270, 600, steps=3)
        page.mouse.up()
        assert page.evaluate("() => echelon.state.match.commanded.chosen.size") == 10
        page.keyboard.press("6")
        page.get_by_role("button", name="Pack 1, ").click()
        assert page.evaluate("() => [...echelon.state.match.commanded.chosen]") == [*range(5)]
        page.keyboard.press("Escape")
        page.keyboard.press("2")
        page.get_by_role("button", name=re.compile("Pack 1, .* alive, order advance")).wait_for()
        assert page.evaluate(MANY_PACKS) == 0  # nothing is cut off
        page.keyboard.press("p")
        page.wait_for_function("() => echelon.play.ended")
        ended = page.evaluate("() => echelon.play.ended")
        assert ended["winner"] == "blue" and ended["figures"]["shots"] > 0
        page.get_by_text("Watch the recording").wait_for()
        assert verify(tmp_path / ended["source"]["run"] / "replays" / ended["source"]["file"]).ok


@pytest.mark.long
def test_reloaded_page_takes_its_seat_again_and_another_tab_does_not(page, tmp_path):
    with served_session(tmp_path, {"opponent": "trivial", "size": 40, "seconds": 600.0, "seed": 3}) as address:
        page.set_viewport_size(DESK)
        page.goto(address)
        page.wait_for_function(FLYING)
        page.keyboard.press("p")
        page.wait_for_function(PACED, arg=True)
        mech = page.evaluate("() => echelon.play.live.pilot")
        page.reload()
        page.wait_for_function(FLYING)
        assert page.evaluate("() => echelon.play.live.pilot") == mech
        other = page.context.new_page()
        other.goto(address)
        other.wait_for_function("() => /No seat: every seat is taken/.test(echelon.state.problem)")
        assert page.evaluate("() => echelon.play.phase") == "flying"
        page.get_by_role("button", name="Leave the match").click()
        page.wait_for_function("() => echelon.state.page === 'list' && echelon.state.match === null")


@pytest.mark.long
def test_list_starts_a_tutorial_that_waits_then_a_match_and_help_pauses_it(page, tmp_path):
    with served_session(make_home(tmp_path), {"idle": True, "size": 40, "packs": 1}) as address:
        page.set_viewport_size({"width": 800, "height": 480})
        page.goto(address.replace("/#", "/?quality=low#"))
        page.get_by_role("button", name="Tutorial").click()
        page.wait_for_function(FLYING)
        assert page.evaluate("() => echelon.play.tutorial && echelon.play.opponent") == "trivial"
        page.keyboard.press("?")
        page.wait_for_function(PACED, arg=True)
        page.keyboard.press("Escape")
        page.wait_for_function(PACED, arg=False)
        page.mouse.move(400, 320)
        page.mouse.down(button="right")  # the secondary trigger
        page.wait_for_function("() => /: /.test(document.querySelector('.cockpit-holds').textContent)")
        page.mouse.up(button="right")
        for step in range(1, 8):
            page.get_by_text(f"{step} / 7").wait_for()
            page.keyboard.press("Enter")
        page.get_by_role("button", name="Fight").click()
        page.wait_for_function("() => !echelon.play.tutorial && echelon.play.live.match.chunk")
        assert page.evaluate("() => echelon.play.opponent") == "trivial"


@pytest.mark.long
def test_recorded_match_is_continued_and_taken_over(page, tmp_path):
    source = record_matches(tmp_path / "made", small_game(seconds=16.0), random_mech=False)[0].path
    home, match = make_home(tmp_path / "home"), match_id(RUN, source.name)
    shutil.copytree(source.parent, home / RUN / "replays", dirs_exist_ok=True)  # with their worlds
    with served_session(home, {"idle": True}) as address:
        page.set_viewport_size(DESK)
        page.goto(address)
        page.wait_for_function("() => echelon.play.phase === 'ready' && echelon.state.list.matches.length > 0")
        page.evaluate("(match) => { location.hash = `#match=${match}&t=10`; }", match)
        page.wait_for_function(LOADED)
        page.keyboard.press(";")
        page.wait_for_function("() => echelon.play.whatIf?.result || echelon.play.whatIf?.problem")
        assert page.evaluate("() => echelon.play.whatIf.problem") == ""
        page.wait_for_function("() => echelon.state.match.ghosts?.length === 3")
        assert page.locator(".whatif-typical a").count() == 3
        lane = page.evaluate("""() => {
            const [{ tick, low, high, p }] = echelon.state.match.asked;
            const box = (of) => document.querySelector(of).getBoundingClientRect();
            const [track, bar] = [box(".win-track"), box(".win-asked")];
            const share = (y) => 1 - (y - track.top) / track.height;
            const estimate = echelon.state.match.win.at(tick).p;
            return { tick, low, high, p, estimate, from: share(bar.bottom), to: share(bar.top) };
        }""")
        assert lane["tick"] == 200 and lane["low"] <= lane["p"] <= lane["high"]
        assert abs(lane["from"] - lane["low"]) < 0.03 and abs(lane["to"] - lane["high"]) < 0.03
        percent = f"blue {min(99, max(1, round(100 * lane['estimate'])))} %"
        assert percent in page.inner_text(".whatif-result") and percent.title() in page.inner_text(".win-now").title()
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        page.select_option("[aria-label='Mech to fly']", "R2")
        page.get_by_role("button", name="Take over", exact=True).click()
        page.wait_for_function(FLYING)
        assert page.evaluate("() => echelon.play.live.match.header.roster[echelon.play.live.pilot].name") == "R2"
        assert state(page, "tick") >= 195
        page.get_by_role("button", name="Leave the match").click()
        page.wait_for_function("() => echelon.state.page === 'list'")
        page.wait_for_function("() => document.querySelectorAll('.card.branch').length >= 3")
