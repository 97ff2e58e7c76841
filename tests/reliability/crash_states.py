"""States that a power loss may leave behind, enumerated from recorded operations in the manner of ALICE (OSDI 2014).

The model is the weakest that POSIX allows with atomic renames: what was written is lost, torn, zero or complete until
the file is synced, and a name is old or new until its folder is synced, each independently of the others, except that
an operation on a name follows earlier ones on the same name or file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.reliability.recorder import Operation

EPHEMERAL = ("-shm",)
"""Suffixes of files that their readers build again after a crash: SQLite's shared memory."""


@dataclass(frozen=True)
class DataChange:
    """A write at an offset, or with ``data`` None a truncation to ``offset``."""

    node: int
    offset: int
    data: bytes | None


@dataclass(frozen=True)
class NameChange:
    """Names that change together: ``(folder, name, node)``, node None where the name goes."""

    names: tuple[tuple[int, str, int | None], ...]
    nodes: frozenset[int]

    def touches(self, other: NameChange) -> bool:
        """Whether both concern a name or a node, so that their order is persisted."""
        mine = {(folder, name) for folder, name, _ in self.names}
        return bool(mine & {(folder, name) for folder, name, _ in other.names} or self.nodes & other.nodes)


@dataclass(frozen=True)
class CrashState:
    """Files and folders after a power loss."""

    files: tuple[tuple[str, bytes], ...]
    folders: tuple[str, ...]
    acknowledged: tuple[str, ...]
    """Marks that were recorded before."""
    cause: str
    """Where the crash was and what was lost."""
    digest: bytes = b""
    """Hash of files and folders."""

    def write(self, root: Path) -> None:
        for name in self.folders:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, data in self.files:
            (root / name).write_bytes(data)


@dataclass
class FileSystem:
    """Changes so far, and which of them are synced."""

    data: dict[int, list[DataChange]] = field(default_factory=dict)
    synced_data: dict[int, int] = field(default_factory=dict)
    """Number of changes of a file that are durable."""
    names: list[tuple[NameChange, set[int]]] = field(default_factory=list)
    """Changes of names with the folders that are not synced since."""
    tree: dict[tuple[int, str], int] = field(default_factory=dict)
    inodes: dict[int, int] = field(default_factory=dict)
    folders: set[int] = field(default_factory=set)
    count: int = 0

    def locate(self, path: str) -> tuple[int, str]:
        folder, *rest = 0, *[part for part in path.split("/") if part != "."]
        for part in rest[:-1]:
            folder = self.tree[folder, part]
        return folder, rest[-1]

    def node(self, path: str) -> int:
        return 0 if path == "." else self.tree[self.locate(path)]

    def change_names(self, *names: tuple[int, str, int | None], nodes: Sequence[int]) -> None:
        for folder, name, node in names:
            if node is None:
                self.tree.pop((folder, name), None)
            else:
                self.tree[folder, name] = node
        self.names.append((NameChange(names, frozenset(nodes)), {folder for folder, _, _ in names}))

    def create(self, operation: Operation) -> None:
        self.count += 1
        self.inodes[operation.inode] = self.count
        self.change_names((*self.locate(operation.path), self.count), nodes=[self.count])

    def rename(self, source: tuple[int, str], target: tuple[int, str]) -> None:
        node = self.tree[source]
        self.change_names((*source, None), (*target, node), nodes=[node])

    def find_unseen_rename(self, operation: Operation) -> None:
        """Account for a rename that the library did not see: a known file has another name than its own."""
        place, node = self.locate(operation.path), self.inodes.get(operation.inode)
        if node is not None and self.tree.get(place) != node:
            self.rename(next(at for at, found in self.tree.items() if found == node), place)

    def apply(self, operation: Operation) -> None:
        kind, path = operation.kind, operation.path
        if kind in ("create", "mkdir"):
            self.create(operation)
            if kind == "mkdir":
                self.folders.add(self.count)
        elif kind == "open" and path != ".":
            self.find_unseen_rename(operation)
        elif kind in ("write", "truncate"):
            node = self.node(path)
            data = operation.data if kind == "write" else None
            self.data.setdefault(node, []).append(DataChange(node, operation.offset, data))
        elif kind == "sync":
            node = self.node(path)
            self.synced_data[node] = len(self.data.get(node, []))
            for _, folders in self.names:
                folders.discard(node)
        elif kind == "rename":
            self.rename(self.locate(path), self.locate(operation.target))
        elif kind == "exchange":
            first, second = self.locate(path), self.locate(operation.target)
            nodes = self.tree[first], self.tree[second]
            self.change_names((*first, nodes[1]), (*second, nodes[0]), nodes=nodes)
        elif kind in ("unlink", "rmdir"):
            place = self.locate(path)
            self.change_names((*place, None), nodes=[self.tree[place]])


DataPolicy = Callable[[list[DataChange]], list[DataChange]]


def _torn(changes: list[DataChange]) -> list[DataChange]:
    last = changes[-1]
    return [*changes[:-1], replace(last, data=last.data[: len(last.data) // 2]) if last.data else last]


def _zeros(changes: list[DataChange]) -> list[DataChange]:
    return [replace(change, data=bytes(len(change.data))) if change.data else change for change in changes]


POLICIES: dict[str, DataPolicy] = {
    "complete": lambda changes: changes,
    "lost": lambda changes: [],
    "torn": _torn,
    "zero": _zeros,
    "later writes first": lambda changes: changes[1:],
}
"""What may remain of the writes to a file since its last sync."""


def crash_states(operations: Sequence[Operation]) -> Iterator[CrashState]:
    """Yield every distinct state after a power loss before a sync, at a mark, or at the end.

    Between those points fewer changes are pending, and their states are among those of the next point. A state is
    yielded once, with all marks that were recorded by the last point that can lead to it.
    """
    found: dict[bytes, CrashState] = {}
    system, marks = FileSystem(), []
    for index, operation in enumerate(operations):
        if operation.kind == "sync":
            _collect(system, tuple(marks), f"before sync {index} of {operation.path!r}", found)
        if operation.kind == "mark":
            marks.append(operation.path)
            _collect(system, tuple(marks), f"after {operation.path!r}", found)
        else:
            system.apply(operation)
    _collect(system, tuple(marks), "at the end", found)
    yield from found.values()


def _collect(system: FileSystem, marks: tuple[str, ...], where: str, found: dict[bytes, CrashState]) -> None:
    pending = [index for index, (_, folders) in enumerate(system.names) if folders]
    dirty = [node for node, changes in system.data.items() if len(changes) > system.synced_data.get(node, 0)]
    contents: dict[tuple[int, str], tuple[bytes, bytes]] = {}
    for names_lost, persisted in _name_choices(system, pending):
        for data_lost, policy in _data_choices(dirty):
            state = _build(system, persisted, policy, contents)
            found[state.digest] = replace(state, acknowledged=marks, cause=f"{where}: {names_lost}; {data_lost}")


def _name_choices(system: FileSystem, pending: list[int]) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield which changes of names are durable: a prefix of the pending ones, all but one, or one alone."""
    durable = frozenset(range(len(system.names))) - frozenset(pending)
    changes = [change for change, _ in system.names]
    for count in range(len(pending) + 1):
        yield f"first {count} of {len(pending)} names", durable | frozenset(pending[:count])
    for index in pending:
        lost = {index}
        for later in pending:
            if later > index and any(changes[later].touches(changes[earlier]) for earlier in lost):
                lost.add(later)
        yield f"without name change {index}", durable | (frozenset(pending) - lost)
        needed = {index}
        for earlier in reversed(pending):
            if earlier < index and any(changes[earlier].touches(changes[later]) for later in needed):
                needed.add(earlier)
        yield f"only name change {index}", durable | needed


def _data_choices(dirty: list[int]) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Yield a policy per file: the same for all, or another one for a single file."""
    for name in POLICIES:
        yield f"data {name}", lambda _, name=name: name
    if len(dirty) > 1:
        for node in dirty:
            for name in ("lost", "torn", "zero"):
                yield f"data of file {node} {name}", lambda n, node=node, name=name: name if n == node else "complete"
            yield f"data of file {node} alone", lambda n, node=node: "complete" if n == node else "lost"


def _build(
    system: FileSystem,
    persisted: frozenset[int],
    policy: Callable[[int], str],
    contents: dict[tuple[int, str], tuple[bytes, bytes]],
) -> CrashState:
    """Return the state with these changes of names; ``contents`` keeps the content and hash of files between calls."""
    tree: dict[int, dict[str, int]] = {}
    for index, (change, _) in enumerate(system.names):
        if index in persisted:
            for folder, name, node in change.names:
                if node is None:
                    tree.setdefault(folder, {}).pop(name, None)
                else:
                    tree.setdefault(folder, {})[name] = node
    files, folders, digest = [], [], hashlib.sha256()

    def walk(folder: int, prefix: str) -> None:
        for name, node in sorted(tree.get(folder, {}).items()):
            path = f"{prefix}{name}"
            if node in system.folders:
                folders.append(path)
                digest.update(f"{path}/".encode())
                walk(node, f"{path}/")
            elif not name.endswith(EPHEMERAL):
                key = node, policy(node)
                if key not in contents:
                    content = _content(system, *key)
                    contents[key] = content, hashlib.sha256(content).digest()
                files.append((path, contents[key][0]))
                digest.update(path.encode() + b"\0" + contents[key][1])

    walk(0, "")
    return CrashState(tuple(files), tuple(folders), (), "", digest.digest())


def _content(system: FileSystem, node: int, policy: str) -> bytes:
    changes = system.data.get(node, [])
    synced = system.synced_data.get(node, 0)
    pending = changes[synced:]
    content = bytearray()
    for change in [*changes[:synced], *(POLICIES[policy](pending) if pending else [])]:
        end = change.offset + len(change.data or b"")
        if change.data is None:
            del content[change.offset :]
        content.extend(bytes(max(0, end - len(content))))
        if change.data is not None:
            content[change.offset : end] = change.data
    return bytes(content)
