"""Pictures of a moment and their panels in Chromium: fog of war, overlays, perception, charts, large battles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.arena.observations import observe
from echelon.replay.columns import Layout
from echelon.replay.figures import figures_at
from echelon.replay.header import header_tables
from echelon.replay.policy_columns import PolicyColumns
from echelon.replay.reader import Replay
from echelon.replay.schema import COLUMNS, MechFlag
from echelon.replay.writer import MatchWriter, world_payload
from echelon.server.catalogue import match_id
from echelon.sim.world import Material
from tests.browser.conftest import DESK, RUN, VIEWPORT, served_match
from tests.browser.player import DRAW_CALLS, cost, open_paused, overlay_calls, select, settle, settled_picture, state
from tests.replay import synthetic
from tests.replay.golden import INSIGHT, REACH, STATES

pytestmark = pytest.mark.long
MATCH, JAMMED = (match_id(RUN, path.name) for path in (INSIGHT, REACH))
READ = "() => echelon.state.match.scan.version >= echelon.state.match.index.chunks.length"
"""Whether the whole match has been read, e.g. for charts."""


def frame_where(path: Path, team: int, flags: MechFlag, without: MechFlag) -> tuple[int, list[int]]:
    """Return the tick of a frame, and the living mechs of a team that have all these flags and none of the others."""
    with Replay(path) as replay:
        teams = np.array([mech["team"] for mech in replay.header["roster"]])
        wanted = flags | MechFlag.ALIVE
        for n in range(len(replay.chunks)):
            chunk = replay.chunk(n)
            for tick, bits in list(zip(chunk.ticks, chunk.frames["flags"], strict=True))[1:-1]:
                fits = (bits & wanted == wanted) & (bits & without == 0) & (teams == team)
                if fits.any():
                    return int(tick), np.flatnonzero(fits).tolist()
    raise AssertionError("the match has no such moment")


HIDDEN = "() => [...echelon.state.match.shown].flatMap((share, mech) => share < 0.5 ? [mech] : [])"
AIM = """(mech) => {
  const { state } = echelon, { x, y, z } = state.match.poses;
  Object.assign(state.camera, { mode: "orbit", target: [x[mech], y[mech], z[mech]], elevation: 1.2, distance: 14 });
}"""


def click_on(page: Any, mech: int) -> int:
    """Click at the place of a mech in the middle of the picture; returns the mech that is selected then."""
    select(page, -1)
    page.evaluate(AIM, mech)
    settle(page)
    page.mouse.click(VIEWPORT["width"] / 2, VIEWPORT["height"] / 2)
    return state(page, "selected")


def test_fog_of_war_hides_mechs_from_picture_panels_and_clicks(page, address):
    tick, mechs = frame_where(INSIGHT, 0, MechFlag(0), MechFlag.SEEN)
    open_paused(page, address, MATCH, tick)
    clear = settled_picture(page)
    page.keyboard.press("g")
    page.keyboard.press("g")
    assert state(page, "fog") == "red"
    foggy = settled_picture(page)
    assert page.evaluate(HIDDEN) == mechs and foggy != clear
    select(page, mechs[0])
    page.locator(".inspector-state", has_text="not seen").wait_for(state="attached")
    assert page.locator(".gauge-value").all_text_contents() == ["–"] * 4
    assert page.locator(".inspector-facts").text_content() == ""
    page.keyboard.press("m")
    page.locator(f'.table [data-mech="{mechs[0]}"]').get_by_text("not seen").wait_for(state="attached")
    page.keyboard.press("m")
    assert click_on(page, mechs[0]) != mechs[0]
    page.keyboard.press("g")
    assert state(page, "fog") == "none"
    assert click_on(page, mechs[0]) == mechs[0]
    assert page.evaluate(HIDDEN) == [] and cost(page, "calls") <= DRAW_CALLS


FORGET = """() => {
  const { store } = echelon.state.match;
  for (const number of store.loaded()) store.get(number).insight.sees.fill(0);
}"""


def test_first_person_shows_what_the_pilot_perceives(page, address):
    open_paused(page, address, MATCH, 80, "&mech=2&cam=first")
    page.locator(".mode", has_text="First person: what B3 perceives").wait_for()
    page.keyboard.press("m")
    whole = settled_picture(page)
    page.evaluate(FORGET)
    page.evaluate("() => echelon.redraw()")
    assert settled_picture(page) != whole  # its contacts are gone from picture and scope
    assert "not seen" not in page.locator(".table").inner_text()  # other panels keep to the chosen fog of war


SILENCE = f"""() => {{
  const {{ store }} = echelon.state.match;
  for (const number of store.loaded()) {{
    const {{ flags }} = store.get(number).mech;
    flags.forEach((bits, i) => (flags[i] = bits & ~{MechFlag.ECM | MechFlag.ECCM:d}));
  }}
  echelon.control.updateCursor(echelon.state);
}}"""
"""Ends all jamming, so that there are no bubbles."""


def test_link_toggle_hides_rings_but_no_bubbles_which_cost_one_draw_call(page, address):
    tick, (mech, *_) = frame_where(REACH, 0, MechFlag.ECM, MechFlag.SHUTDOWN)
    open_paused(page, address, JAMMED, tick, f"&mech={mech}")
    page.locator(".inspector-state", has_text="ECM").wait_for(state="attached")
    page.locator(".inspector-facts", has_text="radar").wait_for(state="attached")
    pictures, calls = [settled_picture(page)], cost(page, "calls")
    page.keyboard.press("x")
    pictures.append(settled_picture(page))
    page.evaluate(SILENCE)
    pictures.append(settled_picture(page))
    assert len(set(pictures)) == 3 and cost(page, "calls") == calls - 1 < DRAW_CALLS


LEGEND = "() => ['.layer-title', '.layer-ticks'].map((name) => document.querySelector(name).innerText)"
TITLES = {
    "presence": "Time spent within 1 voxel",
    "damage": "Damage taken within 1 voxel",
    "ways": "Distance to zone (5-voxel bands)",
}


def test_ground_overlays_have_scales_and_teams(page, address):
    page.set_viewport_size({"width": 720, "height": 480})
    open_paused(page, address, MATCH, 60, "&cam=top")
    bare = settled_picture(page)
    seen = {bare}
    for layer, named in TITLES.items():
        page.keyboard.press("h")
        assert state(page, "layer") == layer
        page.wait_for_function(READ)
        seen.add(settled_picture(page))
        title, scale = page.evaluate(LEGEND)
        assert title.startswith(named) and scale.split()[0] == "0" and float(scale.split()[2]) > 0
        if layer == "damage":
            page.locator(".layer-side", has_text="Red").click()
            seen.add(settled_picture(page))
    assert len(seen) == 5
    page.keyboard.press("h")
    page.locator(".layer-legend").wait_for(state="hidden")
    assert settled_picture(page) == bare


WATCH = """() => {
  window.watched = 0;
  const { observe } = ResizeObserver.prototype;
  ResizeObserver.prototype.observe = function (target) {
    if (target.closest(".pilot .chart")) window.watched++;
    return observe.call(this, target);
  };
}"""
FLATTEN = """() => {
  const lines = echelon.state.match.scan.curves.values;
  lines[14].fill(0);  // stability, after seven figures and seven other states
  echelon.state.match.scan.version++;
}"""
"""Remove a line from a chart, so that it is rebuilt."""


def test_mech_charts_cover_match_and_seek_on_click(page, address):
    page.set_viewport_size(DESK)
    open_paused(page, address, MATCH, 40, "&mech=3")
    page.evaluate(WATCH)
    page.keyboard.press("u")
    charts = page.locator(".pilot .chart:visible")
    charts.nth(2).wait_for(state="visible")
    page.wait_for_function(READ)
    with Replay(INSIGHT) as replay:
        frames = 1 + sum(len(replay.chunk(n).ticks) - 1 for n in range(len(replay.chunks)))
        middle = replay.ticks / 2
    page.wait_for_function(f"() => echelon.state.match.scan.curves.seconds.length === {frames}")
    page.get_by_text("yaw rate").wait_for(state="visible")
    charts.first.locator(".u-over").click(delay=200)  # at the centre; frames are drawn while the button is down
    page.wait_for_function(f"() => Math.abs(echelon.state.tick - {middle}) < 8")
    legend = charts.locator(".u-legend", has_text="stability")
    legend.wait_for(state="visible")
    page.evaluate(FLATTEN)
    legend.wait_for(state="detached")
    assert page.evaluate("() => window.watched") == 0  # a rebuilt chart has no second observer


OBSERVED = """(mech) => {
  const found = echelon.state.match.observed.of(mech, false);
  return found && found.values.map((column) => column[16]);
}"""


def test_observation_is_that_of_the_environment_and_any_row_is_a_chart(page, home, address):
    page.set_viewport_size(DESK)
    with served_match(home, STATES) as match:
        open_paused(page, address, match, 80, "&mech=2")
        page.keyboard.press("u")
        page.wait_for_function(f"() => ({OBSERVED})(2)")
        with Replay(STATES) as replay:
            expected = observe(replay, 2).rows[16]
        assert np.array_equal(np.array(page.evaluate(OBSERVED, 2), np.float32), expected)
        search = page.get_by_role("searchbox")
        for words in ("ego.hull", "figures damage", "contacts[0] ahead"):
            search.fill(words)
            page.locator(".series-rows button").first.click()
            page.locator(f'.series-charts .chart[aria-label^="{words.replace(" ", ".")}"]').wait_for(state="visible")
        settle(page)  # the charts have their places
        page.locator(".series-charts .u-over:visible").nth(1).click(delay=200)  # charts without lines are hidden
        page.wait_for_function("() => Math.abs(echelon.state.tick - 120) < 8")  # the middle of the match


def test_scoreboard_sorts_by_any_column_and_lists_teams_with_sums(page, address):
    page.set_viewport_size(DESK)
    open_paused(page, address, MATCH, 199)
    page.keyboard.press("m")
    with Replay(INSIGHT) as replay:
        damage = figures_at(replay, 199)["damage"]
    cells = page.locator(".table .mech [data-column=damage]")
    page.wait_for_function("() => document.querySelector('.table .mech [data-column=damage]')?.textContent !== '–'")
    assert [int(text) for text in cells.all_text_contents()] == [round(value) for value in damage]
    page.get_by_role("button", name="Damage").click()
    settle(page)  # a frame sorts the rows
    shown = [int(text) for text in cells.all_text_contents()]
    assert shown == [round(value) for half in (damage[:5], damage[5:]) for value in sorted(half, reverse=True)]
    sums = page.locator(".table .team [data-column=damage]").all_text_contents()
    assert sums == [f"{damage[:5].sum():.0f}", f"{damage[5:].sum():.0f}"]


EDGE, HEIGHT, FRAME_COUNT = 60, 10, 9
BATTLE, CONTACTS, MOST_LINKS = 200, 20, 8
WALL = slice(22, 24), slice(8, 32)
"""x and y of the wall; the mech behind it stands at (30, 20)."""
POLICY = PolicyColumns(actions=("forward",), terms=("terminal",), contacts=CONTACTS)


def write_scene(path: Path, places: list[tuple[float, float]], wall: bool, **columns: Any) -> None:
    """Write two seconds in which medium mechs stand still, the first half blue; ``columns`` are stored values."""
    count = len(places)
    roster = [
        {"team": side, "pack": k // 5, "chassis": 2, "name": f"{'BR'[side]}{k + 1}", "present": True}
        for side in (0, 1)
        for k in range(count // 2)
    ]
    described = [column.to_header() for column in (*COLUMNS, *POLICY.columns(count))]
    tables = {**header_tables(), "columns": described}
    head = synthetic.header(mechs=count, roster=roster, zone=[50.0, 50.0, 4.0], **POLICY.to_header())
    material = np.zeros((HEIGHT, EDGE, EDGE), np.uint8)
    material[0, 0, 0] = Material.SOLID  # so that there is terrain to draw
    if wall:
        material[0:8, WALL[1], WALL[0]] = Material.SOLID
    layout = Layout(described, count)
    rows = np.zeros((FRAME_COUNT, layout.width), np.int64)
    frames = layout.split(rows)
    still = {
        "tick": np.arange(FRAME_COUNT)[:, None] * 5, "x": [int(x * 16) for x, _ in places],
        "y": [int(y * 16) for _, y in places], "z": int(1.5 * 16), "hp": 150, "leg_hp": 75, "stability": 100,
        "flags": int(MechFlag.ALIVE), "focus": -1, "painter": -1, "contact": -1, "sees": 255,
    }  # fmt: skip
    for name, value in {**still, **columns}.items():
        frames[name][:] = value
    writer = MatchWriter(path, {**head, **tables}, world_payload(material))
    writer.chunk(rows, {})
    writer.close(winner=0, reason="elimination")


@pytest.fixture(scope="module")
def scenes(home: Path) -> Iterator[dict[str, str]]:
    """Ids of the scenes in the served home: ``wall`` and ``battle``."""
    paths = {name: home / RUN / "replays" / f"{name}.ecr" for name in ("wall", "battle")}
    write_scene(paths["wall"], [(30.0, 20.0), (55.0, 55.0)], wall=True)
    contacts = [(m + k + 1) % BATTLE for m in range(BATTLE) for k in range(CONTACTS)]
    grid = [(8.0 + 3 * (m % 14), 6.0 + 3 * (m // 14)) for m in range(BATTLE)]
    targets = [BATTLE - 1 - m for m in range(BATTLE)]
    write_scene(paths["battle"], grid, wall=False, contact=contacts, focus=targets, painter=targets, flags=17)
    yield {name: match_id(RUN, path.name) for name, path in paths.items()}
    for path in paths.values():
        path.unlink()


COLOURED = """() => new Promise((done) => requestAnimationFrame(() => {
  echelon.redraw();
  const from = document.querySelector("canvas.picture"), into = document.createElement("canvas");
  [into.width, into.height] = [from.width, from.height];
  const brush = into.getContext("2d");
  brush.drawImage(from, 0, 0);
  const sides = [into.width, into.height];
  const [left, top, right, bottom] = [0.4, 0.3, 0.6, 0.65].map((at, k) => Math.round(at * sides[k % 2]));
  const { data } = brush.getImageData(left, top, right - left, bottom - top);
  let blue = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 2] > 120 && data[i + 2] > 1.6 * data[i]) blue++;
  done(blue / (data.length / 4));
}))"""
"""Share of blue pixels in the middle of the picture."""
FACE = """(azimuth) => {
  const { state } = echelon;
  Object.assign(state, { showBars: false, showLinks: false });
  Object.assign(state.camera, { mode: "orbit", target: [30, 20, 1.5], azimuth, elevation: 0.1, distance: 24 });
}"""
BEHIND, BEFORE = np.pi, 0.0
"""Azimuth of a camera behind the wall, and of one on the mech's side."""
VISIBLE_SHARE = 0.01


def coloured(page: Any, azimuth: float) -> float:
    """Return the share of blue in the picture at rest of a camera around the mech behind the wall."""
    page.evaluate(FACE, azimuth)
    settle(page)
    return page.evaluate(COLOURED)


def test_mech_behind_wall_is_a_silhouette_and_the_wall_is_cut_away_before_the_selected_one(page, address, scenes):
    page.set_viewport_size({"width": 960, "height": 600})
    open_paused(page, address, scenes["wall"], 10)
    silhouette, whole = coloured(page, BEHIND), coloured(page, BEFORE)
    assert silhouette > VISIBLE_SHARE
    select(page, 0)
    # through the gap its model is seen as from the free side, not the even screen of its silhouette
    cut = coloured(page, BEHIND)
    assert abs(cut - whole) < abs(silhouette - whole)
    select(page, -1)
    page.evaluate("() => { echelon.state.fog = 'red'; }")  # red has not detected it
    page.wait_for_function("() => echelon.state.match.shown[0] === 0")
    assert coloured(page, BEHIND) < VISIBLE_SHARE / 10


RADAR, AIMED, WATCHED = "255, 243, 176", "255, 224, 138", "242, 246, 250"


def lines(page: Any) -> tuple[int, int]:
    """Return how many links and rings the overlay draws."""
    settle(page)
    strokes = [(call["style"], call["dashes"]) for call in overlay_calls(page, "stroke")]
    rings = sum(RADAR in style for style, _ in strokes)
    links = sum(RADAR not in style and (dashes > 0 or AIMED in style or WATCHED in style) for style, dashes in strokes)
    return links, rings


def test_battle_of_200_has_few_lines_and_no_rings_but_the_selections(page, address, scenes):
    page.set_viewport_size(DESK)
    open_paused(page, address, scenes["battle"], 10)
    assert lines(page) == (0, 0)
    assert page.locator(".pack-row").count() == BATTLE // 5
    select(page, 42)
    links, rings = lines(page)
    assert 0 < links <= MOST_LINKS and rings <= 1
    assert cost(page, "calls") <= DRAW_CALLS
    page.keyboard.press("x")
    assert lines(page) == (0, 0)
