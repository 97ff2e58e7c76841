"""Pictures show what is there, at any size, and mark zone and spawns where they are."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.atlas import palette, picture, relief
from echelon.atlas.png import encode_png
from echelon.nav.field import zone_field
from echelon.sim.world import MATERIALS, Material
from tests.atlas.worlds import EDGE, by_hand, decode_png, scene


def ways_of(world, radius=1):
    return zone_field(world.material, zone=world.zone, radius=radius, clearance=world.clearance)


def test_every_material_has_a_colour_and_a_letter_of_its_own():
    looks = [palette.LOOKS[spec.material] for spec in MATERIALS]
    assert len({look.colour for look in looks}) == len({look.letter for look in looks}) == len(MATERIALS)
    marks = {look.letter for look in (*palette.TEAMS, palette.ZONE, palette.STRANDED)}
    assert not marks & {look.letter for look in looks}


def test_pixels_survive_the_way_through_a_png():
    pixels = np.random.default_rng(1).integers(0, 256, (17, 23, 3)).astype(np.uint8)
    assert np.array_equal(decode_png(encode_png(pixels)), pixels)
    with pytest.raises(ValueError, match="wanted uint8"):
        encode_png(pixels.astype(np.float32))


def test_letters_show_walls_water_zone_and_spawns_with_north_on_top():
    world = by_hand()
    lines = picture.letters(world, relief.terrain(world), EDGE, EDGE)
    up = lines[::-1]
    assert up[4][2:10] == up[5][2:10] == "########" and up[6][2:10] == "........"
    assert up[20][18:22] == "~~~~"
    assert up[12][3] == "B" and up[12][20] == "R"
    assert up[12][9] == "o" and up[12][14] == "o" and up[12][12] == "."


def test_a_small_picture_keeps_narrow_walls():
    world = by_hand()
    small = picture.letters(world, relief.terrain(world), 8, 8)
    assert "#" in "".join(small) and "~" in "".join(small)


@pytest.mark.parametrize(("width", "height"), [(7, 5), (24, 24), (48, 48), (31, 60)])
def test_pictures_come_in_any_size(width, height):
    world = by_hand()
    pixels = picture.pixels(world, relief.terrain(world), width, height)
    assert pixels.shape == (height, width, 3) and pixels.dtype == np.uint8
    assert len(picture.letters(world, relief.terrain(world), width, height)) == height
    colours = {tuple(colour) for colour in pixels.reshape(-1, 3).tolist()}
    assert {palette.BLUE.colour, palette.RED.colour, palette.ZONE.colour} <= colours


def test_a_wall_throws_its_shadow_away_from_the_light_and_only_there():
    height = np.zeros((20, 20), np.int64)
    height[10, 10] = 6
    light = relief.sunlight(height)
    assert light[8, 12] == pytest.approx(relief.LOWEST * relief.SHADOW)
    assert light[12, 8] == light[12, 12] == light[8, 8] == light[5, 15] == pytest.approx(relief.LOWEST)


def test_finer_light_agrees_with_coarse_light_in_the_middle_of_voxels():
    height = np.zeros((12, 12), np.int64)
    height[6, 4] = 8
    coarse, fine = relief.sunlight(height), relief.sunlight(height, 5)
    assert fine.shape == (60, 60)
    assert np.allclose(fine[2::5, 2::5][4, 6], coarse[4, 6])


def test_flat_ground_is_evenly_lit():
    assert np.ptp(relief.sunlight(np.zeros((6, 6), np.int64))) == 0


def test_a_slice_shows_its_layer_and_dark_what_lies_below():
    world = by_hand()
    cut = relief.layer(world, 3)
    assert cut.letter[4, 2] == "#" and cut.letter[10, 10] == " "
    dirt = palette.COLOURS[Material.DIRT]
    assert np.allclose(cut.colour[10, 10], dirt * relief.BELOW_THE_CUT)
    assert (relief.layer(world, 5).letter == " ").all()
    with pytest.raises(ValueError, match="layer is 12, wanted 0 to 11"):
        relief.layer(world, 12)


def test_heights_are_written_in_digits():
    letter = relief.heights(by_hand()).letter
    assert letter[4, 4] == "5" and letter[10, 10] == "."


def test_ways_grow_with_the_distance_from_the_zone_and_leave_out_walls():
    world = by_hand()
    sheet = relief.ways(world, ways_of(world))
    assert sheet.letter[12, 12] == "0" and sheet.letter[12, 22] > sheet.letter[12, 17] > "0"
    assert sheet.letter[4, 2] in "#x" and sheet.letter[0, 0] == "#"


def test_a_png_has_whole_pixels_per_voxel_and_shows_zone_and_spawns():
    world = scene()
    for sheet in (
        relief.terrain(world),
        relief.heights(world),
        relief.layer(world, 2),
        relief.ways(world, ways_of(world)),
    ):
        pixels = decode_png(picture.png(world, sheet))
        assert pixels.shape == (16 * 40, 16 * 40, 3)
        x, y = (int(v * 16) for v in world.starts[0][:2])
        assert tuple(pixels[len(pixels) - 1 - y, x]) == palette.TEAMS[int(world.team[0])].colour
        cx, cy, r = world.zone
        rim = pixels[len(pixels) - 1 - int(cy * 16), min(int((cx + r) * 16), 639)]
        assert tuple(rim) == sheet.zone.colour


def test_a_picture_fits_its_room_and_keeps_its_shape():
    assert picture.fitted((100, 100), 80, 40) == (40, 40)
    assert picture.fitted((100, 50), 80, 80) == (80, 40)
    assert picture.fitted((20, 20), 200, 200) == (40, 40)
