"""``echelon world``: measurements of a map, drawings in letters and colour, and saved files."""

import io
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from echelon_cli import output
from echelon_cli.main import run
from echelon_cli.world_picture import MIN_LINES
from echelon_cli.world_tables import show_measurements
from tests.atlas.worlds import decode_png
from tests.cli.conftest import command, parsed
from tests.replay.golden import SMALL as REPLAY

SMALL = ("--size", "60x48", "--height", "14")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "worlds" / "seed-8.txt"
PICTURED = ("8", *SMALL, "--width", "60")


def shown(echelon, *words):
    code, out, err = echelon("world", *words)
    assert code == output.DONE, err
    return out


def test_world_prints_measurements(echelon):
    code, out, _ = echelon("world", "5", *SMALL, "--measure")
    assert code == output.DONE
    for words in ("60x48x14", "blue spawns", "heavy", "reach the zone", "dirt"):
        assert words in out, words


def test_world_is_deterministic(echelon):
    def figures(*words):
        return {**parsed(echelon("world", *words, "--json")[1]), "took_s": 0}

    first = figures("5", *SMALL)
    assert figures("5", *SMALL) == first != figures("6", *SMALL)
    assert first["size"] == [60, 48, 14] and set(first["hashes"]) == {"recipe", "solid", "materials"}
    assert set(first["ways"]) == {"blue", "red", "ratio"} and len(first["walk"]) == 2
    assert len(first["spawns"]["blue"]["mechs"]) == 5


def test_world_default_is_the_match_map(echelon):
    from echelon.config import EnvConfig
    from echelon.gen.generate import generate

    env = EnvConfig()
    made = generate(env.world, 2, num_packs=env.num_packs, zone_radius_vox=env.zone_radius_vox)
    assert parsed(echelon("world", "2", "--json")[1])["hashes"] == made.hashes


def test_world_maps_option_makes_fair_maps(echelon):
    found = parsed(echelon("world", "5", *SMALL, "--maps", "path", "--json")[1])
    every = parsed(echelon("world", "5", *SMALL, "--json")[1])
    assert found["fair"]["ratio"] <= 1.1 and set(found["fair"]["costs"]) == {"scout", "light", "medium", "heavy"}
    assert every["fair"] is None and every["hashes"] != found["hashes"]
    assert "for a class" in echelon("world", "5", *SMALL, "--maps", "path", "--measure")[1]
    assert shown(echelon, "5", *SMALL, "--maps", "path") != shown(echelon, "5", *SMALL)


def test_world_biome_option_fills_the_map(echelon):
    found = parsed(echelon("world", "1", "--size", "60", "--biome", "dense_jungle", "--json")[1])
    assert set(found["biomes"].values()) == {"dense_jungle"} and found["seen_from_above"]["foliage"] > 0.2


def test_world_plain_drawing_matches_golden(echelon):
    out = shown(echelon, *PICTURED, "--plain")
    if os.environ.get("ECHELON_UPDATE_GOLDEN"):
        GOLDEN.write_text(out, encoding="utf-8")
    assert "\x1b" not in out
    assert out == GOLDEN.read_text(encoding="utf-8")


def test_world_views_differ(echelon):
    views = [(), ("--nav", "scout"), ("--nav", "heavy")]
    pictures = [shown(echelon, "5", *SMALL, *view).partition("\n")[2] for view in views]
    assert len(set(pictures)) == len(views)


@pytest.fixture
def terminal(monkeypatch):
    """Show a map on a terminal of some size; return the lines that it gets, with their codes."""

    def show(columns, lines, *words, colour="truecolor", **changes):
        console = Console(
            file=io.StringIO(), width=columns, height=lines, force_terminal=True, color_system=colour, **changes
        )
        monkeypatch.setattr(output, "console", lambda: console)
        assert run(("world", *words)) == output.DONE
        return console.file.getvalue().splitlines()

    return show


def test_world_colour_only_on_colour_terminals(terminal):
    coloured = "\n".join(terminal(90, 30, "5", *SMALL))
    assert "▀" in coloured and "\x1b[38;2" in coloured and "capture zone" in coloured
    for plain in (
        terminal(90, 30, "5", *SMALL, "--plain"),
        terminal(90, 30, "5", *SMALL, no_color=True),
        terminal(90, 30, "5", *SMALL, colour=None),
    ):
        assert "▀" not in "\n".join(plain)


@pytest.mark.parametrize(("columns", "lines"), [(20, 10), (80, 24), (300, 100)])
def test_world_drawing_fits_the_terminal(terminal, columns, lines):
    shown_lines = [Text.from_ansi(line).plain for line in terminal(columns, lines, "2")]
    drawn = [line for line in shown_lines if "▀" in line]
    assert drawn and len(drawn) <= max(lines, MIN_LINES) - 2
    assert max(len(line) for line in shown_lines) <= columns


def test_world_width_option_widens_the_drawing(terminal):
    drawn = [line for line in terminal(200, 24, "5", *SMALL, "--width", "100") if "▀" in line]
    assert len(drawn) == 40 and all(Text.from_ansi(line).plain.count("▀") == 100 for line in drawn)


def test_world_png_option_writes_png(echelon, tmp_path):
    made = tmp_path / "a.png"
    shown(echelon, "5", *SMALL, "--png", str(made))
    assert decode_png(made.read_bytes()).shape == (48 * 16, 60 * 16, 3)


def test_world_accepts_replay_match_and_run(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-otter")
    paths.replays.mkdir()
    copy = shutil.copy(REPLAY, paths.replays / "u000004-s1-blue.ecr")
    pictures = [shown(echelon, name) for name in (str(copy), "u000004-s1-blue.ecr", paths.id, "latest")]
    assert len(set(pictures)) == 1 and "36x36x12" in pictures[0]
    assert pictures[0].count("B") >= 2 and pictures[0].count("R") >= 2
    assert parsed(echelon("world", paths.id, "--json")[1])["size"] == [36, 36, 12]


def test_world_unwritable_png_is_one_line_error(echelon, tmp_path):
    code, _, err = echelon("world", "1", *SMALL, "--png", str(tmp_path))
    assert code == output.FAILED and err.count("\n") == 1


def test_world_into_pipe_writes_letters():
    done = command("world", *PICTURED)
    assert (done.stdout, done.stderr) == (GOLDEN.read_text(encoding="utf-8"), "")


def test_world_lists_every_dug_path(echelon, capsys):
    found = parsed(echelon("world", "5", *SMALL, "--json")[1])
    found["dug"] = [
        {"label": "blue_to_objective", "attempt": 1, "blocked_cells": 7},
        {"label": "red_to_objective", "attempt": 2, "blocked_cells": 0},
    ]
    show_measurements(found)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("connected") and line.endswith("dug open") for line in lines)
    assert "blue to objective: dig 1 through 7 blocked cells" in lines
    assert "red to objective: dig 2 through 0 blocked cells" in lines
