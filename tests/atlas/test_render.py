"""Rendered views: letters, pixels and PNG show terrain, zone and spawns at any size."""

import numpy as np
import pytest

from echelon.atlas import palette, render, views
from echelon.nav.field import zone_field
from echelon.sim.world import MATERIALS
from tests.atlas.worlds import EDGE, decode_png, handmade, scene


def zone_field_of(world, radius=1):
    return zone_field(world.material, zone=world.zone, radius=radius, clearance=world.clearance)


def test_materials_have_unique_colours_and_letters():
    swatches = [palette.SWATCHES[spec.material] for spec in MATERIALS]
    letters = {swatch.letter for swatch in swatches}
    assert len({swatch.colour for swatch in swatches}) == len(letters) == len(MATERIALS)
    markers = {swatch.letter for swatch in (*palette.TEAMS, palette.ZONE, palette.STRANDED)}
    assert not markers & letters


def test_letters_show_terrain_zone_and_spawns():
    world = handmade()
    lines = render.letters(world, views.terrain(world), EDGE, EDGE)
    rows = lines[::-1]
    assert rows[4][2:10] == rows[5][2:10] == "########" and rows[6][2:10] == "........"
    assert rows[20][18:22] == "~~~~"
    assert rows[12][3] == "B" and rows[12][20] == "R"
    assert rows[12][9] == "o" and rows[12][14] == "o" and rows[12][12] == "."


def test_downscaled_letters_keep_narrow_walls():
    world = handmade()
    small = render.letters(world, views.terrain(world), 8, 8)
    assert "#" in "".join(small) and "~" in "".join(small)


@pytest.mark.parametrize(("width", "height"), [(7, 5), (24, 24), (48, 48), (31, 60)])
def test_pixels_and_letters_have_requested_size(width, height):
    world = handmade()
    pixels = render.pixels(world, views.terrain(world), width, height)
    assert pixels.shape == (height, width, 3) and pixels.dtype == np.uint8
    assert len(render.letters(world, views.terrain(world), width, height)) == height
    colours = {tuple(colour) for colour in pixels.reshape(-1, 3).tolist()}
    assert {palette.BLUE.colour, palette.RED.colour, palette.ZONE.colour} <= colours


def test_sunlight_casts_shadow_away_from_sun():
    height = np.zeros((20, 20), np.int64)
    height[10, 10] = 6
    light = views.sunlight(height)
    assert light[8, 12] == pytest.approx(views.LOWEST * views.SHADOW)
    assert light[12, 8] == light[12, 12] == light[8, 8] == light[5, 15] == pytest.approx(views.LOWEST)


def test_fine_sunlight_matches_coarse_at_voxel_centres():
    height = np.zeros((12, 12), np.int64)
    height[6, 4] = 8
    coarse, fine = views.sunlight(height), views.sunlight(height, 5)
    assert fine.shape == (60, 60)
    assert np.allclose(fine[2::5, 2::5][4, 6], coarse[4, 6])


def test_sunlight_is_uniform_on_flat_ground():
    assert np.ptp(views.sunlight(np.zeros((6, 6), np.int64))) == 0


def test_path_cost_view_grows_with_distance_and_excludes_walls():
    world = handmade()
    view = views.path_cost(world, zone_field_of(world))
    assert view.letter[12, 12] == "0" and view.letter[12, 22] > view.letter[12, 17] > "0"
    assert view.letter[4, 2] in "#x" and view.letter[0, 0] == "#"


def test_png_shows_zone_and_spawns():
    world = scene()
    for view in (views.terrain(world), views.path_cost(world, zone_field_of(world))):
        pixels = decode_png(render.png(world, view))
        assert pixels.shape == (16 * 40, 16 * 40, 3)
        x, y = (int(v * 16) for v in world.starts[0][:2])
        assert tuple(pixels[len(pixels) - 1 - y, x]) == palette.TEAMS[int(world.team[0])].colour
        cx, cy, r = world.zone
        rim = pixels[len(pixels) - 1 - int(cy * 16), min(int((cx + r) * 16), 639)]
        assert tuple(rim) == view.zone.colour


def test_fit_size_keeps_aspect_ratio():
    assert render.fit_size((100, 100), 80, 40) == (40, 40)
    assert render.fit_size((100, 50), 80, 80) == (80, 40)
    assert render.fit_size((20, 20), 200, 200) == (40, 40)
