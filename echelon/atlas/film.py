"""Film of a match seen from above: terrain, mechs, shots and smoke, with names, score, time and captions.

Drawn with Pillow alone, at twice the size and scaled down for smooth edges. The camera rests within a span of the
match, so that the files stay small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from echelon.atlas.motion import Kill, Motion, Pose, Shot, terrain_at
from echelon.atlas.render import plain_pixels
from echelon.atlas.scene import Scene, scene_from_replay
from echelon.atlas.views import terrain
from echelon.replay.match_text import points, result_text, team_name
from echelon.replay.moment_text import clock
from echelon.replay.reader import Replay
from echelon.replay.reel import Span, caption_at
from echelon.replay.schema import MechFlag

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

Rgb = tuple[int, int, int]
FINE = 2
"""Pixels per pixel of the result along an edge, before scaling down."""
LINES = 540
"""Height for which sizes of texts and lines are stated [px]."""
TEAM_COLOURS: tuple[Rgb, Rgb] = ((74, 168, 255), (255, 106, 61))
DARK, LIGHT, PALE = (10, 14, 20), (240, 244, 248), (168, 180, 192)
WEAPON_COLOURS: Mapping[str, Rgb] = {
    "laser": (125, 255, 178), "flamer": (255, 138, 36), "missile": (255, 192, 112), "gauss": (201, 166, 255),
    "autocannon": (255, 224, 122), "painter": (255, 95, 210), "smoke": (216, 221, 226),
}  # fmt: skip
TERRAIN_PIXELS, TERRAIN_DETAIL = 2048, 8
"""Most pixels of the terrain's edge, and of a voxel's."""
MARGIN_VOX, LEAST_VOX = 7.0, 44.0
"""Margin around the mechs in view, and the least width of the view [vox]."""
BEAM_S, STREAK_S, BLAST_S, KILL_S, GROW_S = 0.18, 0.09, 0.3, 1.1, 0.5
"""Times of a beam, of a streak's length, of a blast, of a kill's mark, and of smoke until its full size [s]."""
SHOWN_NAMES = 24
"""Most mechs that have their names written."""
HOLD_S = 1.6
"""Time for which the last frame with the result is held [s]."""
MAX_SPRITES = 512
"""Most pictures of texts in memory."""
ARROW = "→"
"""Missing in the font."""
WORDS = (20, 26)
"""Sizes of a line alone and of the first of two."""
HEADER, CAPTION = 52, 44
"""Heights of the bars at top and bottom, at ``LINES`` [px]."""


class _Sheet(NamedTuple):
    """A picture and its brush."""

    picture: Image
    brush: ImageDraw


class Film:
    """Frames of spans of a match; ``moments`` is the result of ``Replay.timeline``."""

    def __init__(
        self, replay: Replay, moments: Mapping[str, Any], spans: Sequence[Span], size: tuple[int, int], fps: float
    ) -> None:
        from PIL import ImageFont

        self._replay, self._moments, self.spans, self._fps = replay, moments, spans, fps
        self._header = header = replay.header
        self._scene: Scene = scene_from_replay(replay)
        self._width, self._height = size[0] * FINE, size[1] * FINE
        self._unit = self._height / LINES
        self._fonts: dict[int, FreeTypeFont] = {}
        self._font_of = ImageFont.load_default
        self._sprites: dict[tuple[object, ...], tuple[Image, int, int]] = {}
        """Pictures of texts with their offsets."""
        self._teams = [int(mech["team"]) for mech in header["roster"]]
        self._present = [bool(mech.get("present", True)) for mech in header["roster"]]
        self._names = [str(mech["name"])[:6] for mech in header["roster"]]
        chassis = header["chassis"]
        specs = [chassis[mech["chassis"]] if mech["chassis"] < len(chassis) else None for mech in header["roster"]]
        self._size = [float(spec["size"][0]) if spec else 2.0 for spec in specs]
        self._hp = [float(spec["hp"]) if spec else 100.0 for spec in specs]
        self._weapons = [WEAPON_COLOURS.get(str(weapon["name"]), PALE) for weapon in header["weapons"]]
        self._win = moments["win"]

    @property
    def frames(self) -> int:
        """Number of frames, the held last one included."""
        return sum(self._count(span) for span in self.spans) + round(HOLD_S * self._fps)

    def _count(self, span: Span) -> int:
        return max(1, round((span.end - span.start) * self._fps))

    def draw(self) -> Iterator[Image]:
        """Yield all frames in order of time."""
        camera = None
        for span in self.spans:
            camera = _Camera(self, Motion(self._replay, span.start, span.end))
            for number in range(self._count(span)):
                yield self._frame(camera, span.start + (number + 1) / self._fps)
        if camera is not None:
            last = self._frame(camera, self.spans[-1].end, self._result())
            yield from (last for _ in range(round(HOLD_S * self._fps)))

    def samples(self) -> list[Image]:
        """Return a frame of the middle of each span."""
        cameras = [_Camera(self, Motion(self._replay, span.start, span.end)) for span in self.spans]
        return [
            self._frame(camera, (span.start + span.end) / 2) for camera, span in zip(cameras, self.spans, strict=True)
        ]

    def _frame(self, camera: _Camera, second: float, words: Sequence[str] = ()) -> Image:
        """Return a frame, with ``words`` instead of the caption of its moment."""
        from PIL import ImageDraw

        picture = camera.ground(second).copy()
        brush = ImageDraw.Draw(picture, "RGBA")
        sheet = _Sheet(picture, brush)
        pose = camera.motion.at(second)
        self._draw_zone(brush, camera, pose)
        for kill in camera.motion.kills:
            self._draw_kill(brush, camera, kill, second)
        self._draw_mechs(sheet, camera, pose)
        for shot in camera.motion.shots:
            self._draw_shot(brush, camera, shot, second)
        self._draw_smoke(brush, camera, second)
        self._draw_score(sheet, pose, second)
        if words := words or (caption_at(self._moments["moments"], second),):
            self._draw_words(sheet, words)
        return picture.reduce(FINE)

    def _draw_zone(self, brush: ImageDraw, camera: _Camera, pose: Pose) -> None:
        x, y, radius = (float(value) for value in self._header["zone"])
        held = [weight > 0 for weight in pose.tonnage.tolist()]
        colour = LIGHT if held[0] == held[1] else TEAM_COLOURS[0 if held[0] else 1]
        box = camera.box(x, y, radius)
        brush.ellipse(box, fill=(*colour, 34), outline=(*DARK, 150), width=round(6 * self._unit))
        brush.ellipse(box, outline=(*colour, 235), width=round(3 * self._unit))

    def _draw_mechs(self, sheet: _Sheet, camera: _Camera, pose: Pose) -> None:
        brush = sheet.brush
        named = sum(self._present) <= SHOWN_NAMES
        for mech, team in enumerate(self._teams):
            if not self._present[mech]:
                continue
            x, y = camera.point(float(pose.x[mech]), float(pose.y[mech]))
            radius = max(6.0 * self._unit, self._size[mech] * camera.scale * 0.62)
            if not pose.alive[mech]:
                self._draw_cross(brush, x, y, radius * 0.6, (*TEAM_COLOURS[team], 150))
                continue
            down = bool(int(pose.flags[mech]) & (MechFlag.FALLEN | MechFlag.SHUTDOWN))
            colour = tuple(round(value * (0.55 if down else 1.0)) for value in TEAM_COLOURS[team])
            brush.polygon(
                _hull(x, y, radius, -float(pose.yaw[mech])), fill=colour, outline=DARK, width=round(2 * self._unit)
            )
            ring = [x - radius * 1.35, y - radius * 1.35, x + radius * 1.35, y + radius * 1.35]
            health = max(0.0, min(1.0, float(pose.hp[mech]) / self._hp[mech])) if self._hp[mech] > 0 else 0.0
            brush.arc(ring, -90, 270, fill=(*DARK, 120), width=round(3 * self._unit))
            brush.arc(ring, -90, -90 + 360 * health, fill=(*TEAM_COLOURS[team], 255), width=round(3 * self._unit))
            if named:
                self._text(sheet, (x, y + radius * 1.9), self._names[mech], 14, LIGHT, anchor="mm", outlined=True)

    def _draw_cross(self, brush: ImageDraw, x: float, y: float, radius: float, colour: tuple[int, ...]) -> None:
        for a, b in ((-radius, radius), (radius, -radius)):
            brush.line((x - radius, y + a, x + radius, y + b), fill=colour, width=round(3 * self._unit))

    def _draw_shot(self, brush: ImageDraw, camera: _Camera, shot: Shot, second: float) -> None:
        age = second - shot.end
        colour = self._weapons[shot.weapon]
        start, end = camera.point(*shot.origin), camera.point(*shot.target)
        beam = shot.start == shot.end
        if beam and 0 <= age < BEAM_S:
            fade = round(255 * (1 - age / BEAM_S))
            brush.line((*start, *end), fill=(*colour, fade // 3), width=round(7 * self._unit))
            brush.line((*start, *end), fill=(*colour, fade), width=round(2.5 * self._unit))
        elif not beam and shot.start <= second < shot.end:
            shares = [
                (at - shot.start) / (shot.end - shot.start) for at in (max(shot.start, second - STREAK_S), second)
            ]
            ends = [(start[i] + (end[i] - start[i]) * share) for share in shares for i in (0, 1)]
            brush.line(tuple(ends), fill=(*DARK, 160), width=round(6 * self._unit))
            brush.line(tuple(ends), fill=(*colour, 255), width=round(3.5 * self._unit))
        if 0 <= age < BLAST_S and not beam:
            radius = (0.6 + 0.02 * min(60.0, shot.damage)) * camera.scale * (0.5 + age / BLAST_S)
            radius = max(radius, 4 * self._unit)
            fade = round(220 * (1 - age / BLAST_S))
            brush.ellipse((end[0] - radius, end[1] - radius, end[0] + radius, end[1] + radius), fill=(*colour, fade))

    def _draw_kill(self, brush: ImageDraw, camera: _Camera, kill: Kill, second: float) -> None:
        age = second - kill.second
        if not 0 <= age < KILL_S:
            return
        part = age / KILL_S
        for scale, strength in ((4.2, 230), (2.6, 255)):
            box = camera.box(*kill.at, scale * (0.4 + 0.6 * part**0.5))
            brush.ellipse(box, outline=(255, 214, 120, round(strength * (1 - part))), width=round(4 * self._unit))

    def _draw_smoke(self, brush: ImageDraw, camera: _Camera, second: float) -> None:
        motion = camera.motion
        for cloud in motion.clouds:
            age = second - cloud.second
            if 0 <= age < motion.cloud_life:
                grown = 0.3 + 0.7 * min(1.0, age / GROW_S)
                fade = min(1.0, (motion.cloud_life - age) / 1.5)
                for part in (1.0, 0.82, 0.6):
                    box = camera.box(*cloud.at, motion.cloud_radius * grown * part)
                    brush.ellipse(box, fill=(206, 212, 218, round(62 * fade)))

    def _draw_score(self, sheet: _Sheet, pose: Pose, second: float) -> None:
        unit, width, brush = self._unit, self._width, sheet.brush
        brush.rectangle((0, 0, width, HEADER * unit), fill=(*DARK, 225))
        middle = HEADER * unit / 2 - 3 * unit
        self._text(sheet, (width / 2, middle), clock(second), 24, LIGHT, anchor="mm")
        for team, side in ((0, -1), (1, 1)):
            anchor = "rm" if team == 0 else "lm"
            x = width / 2 + side * 52 * unit
            score = points(float(pose.score[team]))
            self._text(sheet, (x, middle), score, 27, TEAM_COLOURS[team], anchor=anchor)
            x += side * (self._font(27).getlength(score) + 16 * unit)
            alive = sum(bool(pose.alive[m]) for m, t in enumerate(self._teams) if t == team and self._present[m])
            room = (width / 2 - abs(x - width / 2)) - 14 * unit
            name = self._fitted(team_name(self._header, team), 19, room)
            self._text(sheet, (x, middle - 8 * unit), name, 19, LIGHT, anchor=anchor)
            self._text(sheet, (x, middle + 12 * unit), f"{alive} alive", 13, PALE, anchor=anchor)
        tick = second * float(self._header["tick_hz"])
        share = float(np.interp(tick, self._win["tick"], self._win["blue"])) if self._win["tick"] else 0.5
        top, bottom, split = (HEADER - 5) * unit, HEADER * unit, width * share
        brush.rectangle((0, top, split, bottom), fill=(*TEAM_COLOURS[0], 255))
        brush.rectangle((split, top, width, bottom), fill=(*TEAM_COLOURS[1], 255))
        brush.rectangle((split - unit, top - 2 * unit, split + unit, bottom), fill=(*LIGHT, 255))

    def _result(self) -> Sequence[str]:
        """Return headline and details of the match's end, nothing for one that is not decided or not shown."""
        outcome = self._replay.timeline()["outcome"] or {}
        ended = self.spans[-1].end * float(self._header["tick_hz"]) >= self._replay.ticks - 1
        return result_text(self._header, outcome) if ended and int(outcome.get("winner", -1)) >= 0 else ()

    def _draw_words(self, sheet: _Sheet, lines: Sequence[str]) -> None:
        """Draw one or two lines of text on a dark bar at the bottom; none for empty lines."""
        unit = self._unit
        if not any(lines):
            return
        height = (CAPTION if len(lines) == 1 else 2 * CAPTION - 12) * unit
        top = self._height - height
        sheet.brush.rectangle((0, top, self._width, self._height), fill=(*DARK, 225))
        room = self._width - 24 * unit
        for number, text in enumerate(lines):
            y = top + height * (number + 0.5) / len(lines) + (2 - 4 * number) * unit * (len(lines) - 1)
            size, colour = (WORDS[len(lines) - 1], LIGHT) if number == 0 else (17, PALE)
            text = text.replace(ARROW, "to")
            fitting = next((s for s in range(size, 10, -1) if self._font(s).getlength(text) <= room), 11)
            self._text(sheet, (self._width / 2, y), self._fitted(text, fitting, room), fitting, colour, anchor="mm")

    def _font(self, size: int) -> FreeTypeFont:
        if size not in self._fonts:
            self._fonts[size] = self._font_of(size * self._unit)  # type: ignore[assignment]
        return self._fonts[size]

    def _fitted(self, text: str, size: int, room: float) -> str:
        """Return a text, shortened with an ellipsis to a width [px]."""
        font = self._font(size)
        while len(text) > 1 and font.getlength(text) > room:
            text = text.removesuffix("…")[:-1].rstrip() + "…"
        return text

    def _text(
        self, sheet: _Sheet, at: tuple[float, float], text: str, size: int, colour: Rgb, *, anchor: str,
        outlined: bool = False,
    ) -> None:  # fmt: skip
        """Draw a line of text; a picture of it is kept, since outlines take longest to draw."""
        from PIL import Image, ImageDraw

        key = (text, size, colour, anchor, outlined)
        if key not in self._sprites:
            width = round(2.5 * self._unit) if outlined else 0
            font = self._font(size)
            left, top, right, bottom = sheet.brush.textbbox((0, 0), text, font=font, anchor=anchor, stroke_width=width)
            left, top = int(left) - 2, int(top) - 2
            sprite = Image.new(
                "RGBA", (int(right) - left + 3, int(bottom) - top + 3), (*(DARK if outlined else colour), 0)
            )
            origin = (-left, -top)
            ImageDraw.Draw(sprite).text(
                origin, text, (*colour, 255), font, anchor=anchor, stroke_width=width, stroke_fill=(*DARK, 220)
            )
            if len(self._sprites) >= MAX_SPRITES:
                self._sprites.clear()
            self._sprites[key] = (sprite, left, top)
        sprite, left, top = self._sprites[key]
        sheet.picture.paste(sprite, (round(at[0]) + left, round(at[1]) + top), sprite)


class _Camera:
    """View of one span: a rectangle of the map that contains its mechs and the zone."""

    def __init__(self, film: Film, motion: Motion) -> None:
        self.motion, self._film = motion, film
        self._grounds: dict[int, Image] = {}
        width, height = film._width, film._height - (HEADER + CAPTION) * film._unit
        x, y, radius = (float(value) for value in film._header["zone"])
        places = motion.living_places()
        reach = np.array([[x - radius, y - radius], [x + radius, y + radius]])
        places = np.concatenate([places, reach]) if len(places) else reach
        low, high = places.min(axis=0) - MARGIN_VOX, places.max(axis=0) + MARGIN_VOX
        span = max(high[0] - low[0], (high[1] - low[1]) * width / height, LEAST_VOX)
        self.scale = width / span
        """Pixels per voxel."""
        edge = np.array(film._scene.size[:2], np.float64)
        shown = np.array([span, span * height / width])
        middle = (low + high) / 2
        inside = np.clip(middle, shown / 2, np.maximum(edge - shown / 2, shown / 2))
        self._middle = np.where(shown < edge, inside, edge / 2)
        self._centre = np.array([width / 2, HEADER * film._unit + height / 2])

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixel of a place [vox]."""
        at = self._centre + (np.array([x, y]) - self._middle) * (self.scale, -self.scale)
        return float(at[0]), float(at[1])

    def box(self, x: float, y: float, radius: float) -> tuple[float, float, float, float]:
        """Return the box of a circle around a place [vox] in pixels."""
        at, length = self.point(x, y), radius * self.scale
        return at[0] - length, at[1] - length, at[0] + length, at[1] + length

    def ground(self, second: float) -> Image:
        """Return the terrain at the start of the chunk of a time."""
        replay, tick = self._film._replay, second * self.motion.hz
        number = next((n for n, ref in enumerate(replay.chunks) if tick <= ref.tick1), len(replay.chunks) - 1)
        if number not in self._grounds:
            self._grounds = {number: self._painted(number)}
        return self._grounds[number]

    def _painted(self, number: int) -> Image:
        from PIL import Image

        film, (x, y, _) = self._film, self._film._scene.size
        scene = replace(film._scene, material=terrain_at(film._replay, number))
        per_voxel = max(1, min(TERRAIN_DETAIL, TERRAIN_PIXELS // max(x, y)))
        whole = Image.fromarray(plain_pixels(terrain(scene), per_voxel))
        width, height = film._width, film._height
        left, bottom = self._middle - self._centre * (1 / self.scale, -1 / self.scale) - (0, height / self.scale)
        step = per_voxel / self.scale
        top = y * per_voxel - (bottom + height / self.scale) * per_voxel
        place = (step, 0, left * per_voxel, 0, step, top)
        return whole.transform((width, height), Image.Transform.AFFINE, place, Image.Resampling.BICUBIC, fillcolor=DARK)


def _hull(x: float, y: float, radius: float, turn: float) -> list[tuple[float, float]]:
    """Return the corners of a mech's outline, pointed toward its heading."""
    outline = ((1.25, 0.0), (0.45, 0.75), (-0.9, 0.75), (-0.9, -0.75), (0.45, -0.75))
    cos, sin = np.cos(turn) * radius, np.sin(turn) * radius
    return [(x + a * cos - b * sin, y + a * sin + b * cos) for a, b in outline]
