"""Policies and recordings that a session may use, by name: never by a path.

A pilot is a scripted level, ``champion``, a run with a checkpoint, or a league entry. A recording is a file of the
folder ``replays`` of a run. Names are looked up in lists of what exists.
"""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from echelon import champion
from echelon.agents.heuristic import SKILLS
from echelon.arena.contest import Pilot
from echelon.arena.league import LeagueEntry
from echelon.arena.named_pilots import RecordedPilot, level_pilot, policy_pilot, still_pilot
from echelon.arena.store import Store, StoreError, league_path
from echelon.files import reason_of
from echelon.play_protocol import Source
from echelon.replay.match_text import LEVEL_PREFIX, STILL
from echelon.replay.schema import SUFFIX
from echelon.rl.weights import LoadedPolicy
from echelon.runs import RunNotFoundError, RunPaths, list_runs, policy_name, read_json, runs_home

MAX_LISTED = 200
"""Most runs and most league entries that are offered; others can be named too."""


class Catalogue:
    """Policies and recordings of a runs folder; loaded policies stay in memory. A ``Finder`` of pilots.

    ``find`` looks up policies by other names than those of the listed ones; ``RunNotFoundError`` for an unknown name.
    """

    option, remedy = "pilots", "choose a pilot for {}"

    def __init__(
        self, home: Path | None = None, device: torch.device | str = "cpu", find: Callable[[str], Path] | None = None
    ) -> None:
        self.home = runs_home(home)
        self._device, self._find = device, find
        self._loaded: dict[str, tuple[Pilot, LoadedPolicy]] = {}

    def policies(self) -> list[str]:
        runs = [run.id for run in list_runs(self.home) if _has_checkpoint(run)]
        entries = sorted({policy_name(entry.name) for entry in self._entries() if entry.ckpt_path})
        return [champion.NAME, *runs[:MAX_LISTED], *entries[:MAX_LISTED]]

    def newest_run(self) -> str:
        return next((run.id for run in list_runs(self.home) if _has_checkpoint(run)), "")

    def _entries(self) -> list[LeagueEntry]:
        with contextlib.suppress(StoreError), Store(league_path(self.home), read_only=True) as store:
            return list(store.league().entries.values())
        return []

    def _entry_path(self, name: str) -> Path | None:
        """Return the policy of the league entry with this id, or a name that it is listed or was recorded by."""
        found = [e.ckpt_path for e in self._entries() if e.ckpt_path and name in (e.entry_id, *e.names)]
        return Path(found[-1]) if found else None

    def named(self, name: str) -> tuple[Pilot, LoadedPolicy | None]:
        """Return the pilot of a name, and its policy; ``ValueError`` for a name that is none."""
        if name.removeprefix(LEVEL_PREFIX) == STILL:
            return still_pilot(), None
        if (level := level_pilot(name)) is not None:
            return level, None
        if name not in self._loaded:
            self._loaded[name] = self._load(name, self._path(name))
        return self._loaded[name]

    def _path(self, name: str) -> Path:
        if name == champion.NAME:
            return champion.FOLDER
        run = next((run for run in list_runs(self.home) if run.id == name), None)
        path = run.root if run is not None else self._entry_path(name)
        levels = ", ".join((*SKILLS, STILL))
        if path is None and self._find is not None:
            try:
                return self._find(name)
            except RunNotFoundError as error:
                raise ValueError(f"{self.option} has pilot {name!r}, expected a level ({levels}) or: {error}") from None
        if path is None:
            raise ValueError(f"pilot {name!r:.80} does not exist, expected a level ({levels}), {champion.NAME}, a run "
                             "or a league entry")  # fmt: skip
        return path

    def _load(self, name: str, path: Path) -> tuple[Pilot, LoadedPolicy]:
        try:
            return policy_pilot(name, path, self._device)
        except OSError as error:
            raise ValueError(f"pilot {name!r} cannot be read: {reason_of(error)}") from None

    def recording(self, source: Source) -> Path:
        """Return the file of a recording; ``ValueError`` for one that is not listed."""
        run = next((run for run in list_runs(self.home) if run.id == source.run), None)
        if run is not None:
            with contextlib.suppress(OSError):
                for path in run.replays.iterdir():
                    if path.name == source.file and path.suffix == SUFFIX and path.is_file() and not path.is_symlink():
                        return path
        raise ValueError(f"match {source.file!r:.80} of run {source.run!r:.80} does not exist")

    def paths(self, header: Mapping[str, Any], flown: RecordedPilot) -> list[Path]:
        """Return where the policy that flew a mech may be: checkpoint of the match's run, league entry, name."""
        run = next((run for run in list_runs(self.home) if run.id == header.get("run")), None)
        step = [] if run is None else [run.checkpoints / f"step-{header.get('global_step')}"]
        names = [name for name in (flown.checkpoint, flown.name) if name]
        entries = [path for name in names if (path := self._entry_path(name)) is not None]
        return [*step, *entries, *(path for path in (self._known_path(name) for name in names) if path)]

    def load(self, label: str, path: Path) -> tuple[Pilot, LoadedPolicy]:
        """Return the pilot and the policy of a file; ``ValueError`` for one that is none."""
        if str(path) not in self._loaded:
            self._loaded[str(path)] = self._load(label, path)
        return self._loaded[str(path)]

    def _known_path(self, name: str) -> Path | None:
        with contextlib.suppress(ValueError):
            return self._path(name)
        return None


def _has_checkpoint(run: RunPaths) -> bool:
    if (read_json(run.spec, names=True) or {}).get("kind") != "train":
        return False
    with contextlib.suppress(OSError):
        return any(path.name.startswith("step-") for path in run.checkpoints.iterdir())
    return False
