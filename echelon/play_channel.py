"""Local channel between the server and a play session: a socket in the session's run folder.

Every browser has a connection. A packet is its length and a message of ``echelon.play_protocol``; an empty packet from
the server asks for the next frame, so that a slow browser gets the newest one. Only the user can open the socket.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from echelon.play_protocol import TOKEN_BYTES
from echelon.runs import RunPaths
from echelon.state_files import read_bounded

LENGTH = struct.Struct("<I")
MAX_PACKET = 64 << 20
"""Largest message of a session, the beginning of a match with its map [bytes]."""
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
"""Permissions of socket and token, and of their folder."""
MAX_TOKEN = 256
MAX_SESSIONS = 4
"""Sessions of a runs folder at the same time."""


class ChannelError(ValueError):
    """A session cannot be reached, or its packets are damaged."""


def packet(message: bytes) -> bytes:
    return LENGTH.pack(len(message)) + message


async def read_packet(reader: asyncio.StreamReader, limit: int = MAX_PACKET) -> bytes:
    """Return the next message; ``ChannelError`` at the end of the stream and for one above ``limit`` bytes."""
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > limit:
            raise ChannelError(f"message has {length} bytes, expected at most {limit}")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise ChannelError("the session has closed the channel") from error


def write_token(paths: RunPaths) -> str:
    token = secrets.token_urlsafe(TOKEN_BYTES)
    _make_private(paths.channel)
    paths.play_token.unlink(missing_ok=True)
    handle = os.open(paths.play_token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(handle, "w") as file:
        file.write(token)
    return token


def read_token(paths: RunPaths) -> str:
    with contextlib.suppress(OSError, ValueError):
        return read_bounded(paths.play_token, MAX_TOKEN).decode().strip()
    return ""


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield an address of a socket that fits into the 100 bytes that systems allow, where the system has one."""
    if not sys.platform.startswith("linux"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _make_private(folder: Path) -> None:
    """Make a folder that its user alone can open; ``ValueError`` for a link in its place."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=PRIVATE_FOLDER)
    if folder.is_symlink():
        raise ValueError(f"{str(folder)!r} is a link, expected a folder of the session")
    folder.chmod(PRIVATE_FOLDER)


def listening_socket(paths: RunPaths) -> socket.socket:
    """Return the listening socket of a session, in place of one that an earlier process left."""
    _make_private(paths.channel)
    paths.play_socket.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_path(paths.play_socket) as name:
            bound.bind(name)
    finally:
        os.umask(before)
    bound.listen()
    bound.setblocking(False)
    return bound


async def connect(paths: RunPaths) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to a session; ``ChannelError`` where none listens."""
    try:
        with short_path(paths.play_socket) as name:
            return await asyncio.open_unix_connection(name)
    except OSError as error:
        raise ChannelError(f"session {paths.id!r} does not answer") from error
