"""Video files from frames: MP4 and WebM with PyAV, GIF and animated WebP with Pillow.

Both libraries belong to the optional extra ``video``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

from echelon.files import reason_of

COLOURS = 255
"""Colours of a GIF; one more marks pixels that stay."""
WEBP_QUALITY, WEBP_METHOD = 55, 4


class Format(NamedTuple):
    """How files with an ending are encoded."""

    encoder: str
    """Of PyAV, empty for Pillow."""
    options: dict[str, str]
    size: tuple[int, int]
    """Default width and height [px]."""
    fps: int
    """Default frame rate."""


FORMATS = {
    ".mp4": Format("libx264", {"crf": "21", "preset": "veryfast"}, (1280, 720), 30),
    ".webm": Format("libvpx-vp9", {"crf": "33", "b": "0", "cpu-used": "6", "deadline": "realtime"}, (1280, 720), 30),
    ".gif": Format("", {}, (640, 360), 12),
    ".webp": Format("", {}, (720, 406), 12),
}
"""By ending of the file."""


def require_libraries(ending: str) -> None:
    """Raise ``ValueError`` if a library for an ending is missing."""
    needed = {"PIL": "Pillow", **({"av": "PyAV"} if FORMATS[ending].encoder else {})}
    missing = [name for module, name in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} not installed, expected for {ending} files; "
                         'try pip install "echelon[video]"')  # fmt: skip


def encode(file: BinaryIO, ending: str, frames: Iterable[Image], fps: int, samples: Sequence[Image] = ()) -> None:
    """Write frames of one even size as the format of an ending; the colours of a GIF are chosen from ``samples``."""
    if FORMATS[ending].encoder:
        _encode_stream(file, ending, frames, fps)
    else:
        _encode_pictures(file, ending, frames, fps, samples)


def _encode_stream(file: BinaryIO, ending: str, frames: Iterable[Image], fps: int) -> None:
    import av
    from av.error import FFmpegError
    from av.video.stream import VideoStream

    kind = FORMATS[ending]
    try:
        with av.open(file, "w", format=ending.removeprefix(".")) as container:
            stream = container.add_stream(kind.encoder, rate=fps, options=kind.options)
            assert isinstance(stream, VideoStream)
            stream.pix_fmt = "yuv420p"
            for number, frame in enumerate(frames):
                if number == 0:
                    stream.width, stream.height = frame.size
                picture = av.VideoFrame.from_image(frame)
                picture.pts, picture.time_base = number, Fraction(1, fps)
                container.mux(stream.encode(picture))
            container.mux(stream.encode())
    except FFmpegError as error:
        raise ValueError(f"cannot write a {ending} file: {reason_of(error)}; try another --out") from None


def _encode_pictures(file: BinaryIO, ending: str, frames: Iterable[Image], fps: int, samples: Sequence[Image]) -> None:
    common = {"save_all": True, "duration": round(1000 / fps), "loop": 0}
    rest = iter(frames)
    if ending == ".webp":
        next(rest).save(file, "WEBP", append_images=rest, quality=WEBP_QUALITY, method=WEBP_METHOD, **common)
        return
    palette = _palette(samples)
    flat = _changes(rest, palette)
    next(flat).save(file, "GIF", append_images=flat, optimize=False, disposal=1, transparency=COLOURS, **common)


def _changes(frames: Iterable[Image], palette: Image) -> Iterator[Image]:
    """Yield frames in the colours of a palette, from the second on with pixels that stay marked as transparent."""
    from PIL import Image

    before = None
    for frame in frames:
        flat = np.asarray(frame.quantize(palette=palette, dither=Image.Dither.NONE))
        shown = flat if before is None else np.where(flat == before, np.uint8(COLOURS), flat)
        picture = Image.fromarray(shown, "P")
        picture.putpalette(palette.getpalette() or [])
        yield picture
        before = flat


def _palette(samples: Sequence[Image]) -> Image:
    """Return an image with the colours of frames as palette."""
    from PIL import Image

    width, height = samples[0].size
    montage = Image.new("RGB", (width, height * len(samples)))
    for number, frame in enumerate(samples):
        montage.paste(frame, (0, height * number))
    return montage.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
