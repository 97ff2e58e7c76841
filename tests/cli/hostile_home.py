"""A runs folder in which every text of unknown origin carries terminal sequences and markup."""

import json
import re
import sqlite3
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from safetensors.numpy import save_file

from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, league_path
from echelon.config import EnvConfig
from echelon.demos import MANIFEST, DemoSide, Manifest
from echelon.runs import RunPaths
from echelon.telemetry.events import EVENTS, Event, EventAlert, EventEnd, EventEval, EventUpdate
from echelon.telemetry.heat_maps import KINDS
from echelon.telemetry.lines import to_json
from tests.replay.synthetic import header, write_match

HOSTILE = "a\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[31m\x9b32m\x9d0;t\x9c\x00\x7f\u202e\u200b\u2028[bold]m[x] :bomb:\nb\r\tc"
"""OSC 52, CSI, C1, NUL, DEL, reversed direction, zero width, line breaks, Rich markup and an emoji code."""

NAME = HOSTILE.replace("\x00", "")
"""The same as a name of a file."""

RUN = f"20260101-000000-{NAME}-calm-fox"
SHOWN = r"\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[31m\x9b32m"
"""How a command shows the start of the text."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def control_characters(text: str) -> set[str]:
    """Return the characters of output that a terminal would obey or hide; line ends and our own colours are none."""
    return {char for char in COLOURS.sub("", text) if not char.isprintable()} - {"\n"}


def value_of(hint: Any) -> Any:
    """Return a value of a type that carries the hostile text wherever the type allows text."""
    cls = get_origin(hint) or hint
    if cls is dict:
        return {HOSTILE: value_of(get_args(hint)[1]), "win": value_of(get_args(hint)[1])}
    if cls is list:
        return [value_of(get_args(hint)[0])]
    if cls in (str, Any):
        return HOSTILE
    return {int: 3, float: 0.5, bool: True}[cls]


def event_of(cls: type[Event]) -> Event:
    """Return a record with the hostile text in every field that holds text."""
    hints = get_type_hints(cls)
    return cls(**{f.name: value_of(hints[f.name]) for f in fields(cls)})


def make_run(home: Path, name: str = RUN) -> RunPaths:
    """Write a run that has ended, with logs, heat maps, a checkpoint and a replay."""
    paths = RunPaths(home / name)
    for folder in (paths.log, paths.control, paths.heat, paths.replays, paths.checkpoints / f"step-{NAME}"):
        folder.mkdir(parents=True)
    config = {"preset": HOSTILE, HOSTILE: HOSTILE, "opponents": {"kind": HOSTILE, "skill": HOSTILE}}
    spec = {"kind": HOSTILE, "config": config, "provenance": {"preset": HOSTILE, HOSTILE: HOSTILE}, "host": HOSTILE}
    paths.spec.write_text(json.dumps(spec))
    rows = [event_of(cls) for cls in EVENTS.values() if cls is not EventEnd]
    lines = [to_json(event) for event in (*rows, event_of(EventUpdate), event_of(EventAlert), event_of(EventEnd))]
    paths.metrics.write_text("\n".join(lines) + "\n")
    paths.evals.write_text(to_json(event_of(EventEval)) + "\n")
    paths.exit.write_text(json.dumps({"code": 1, "message": HOSTILE, "checkpoint": HOSTILE, "update": 3}))
    paths.processes.write_text(json.dumps({"supervisor": {"pid": 2, "create_time": 1, "boot_id": "", "host": HOSTILE}}))
    paths.progress.write_text(json.dumps({"phase": HOSTILE, "update": 3}))
    for log in (paths.log_worker, paths.log_supervisor):
        log.write_text(f"{HOSTILE}\n{HOSTILE}\n")
    save_file({kind: np.ones((4, 4), np.float32) for kind in KINDS}, paths.heat / "u3.safetensors")
    (paths.checkpoints / "best.json").write_text(json.dumps({"checkpoint": HOSTILE}))
    (paths.checkpoints / f"step-{NAME}" / "manifest.json").write_text(json.dumps({"format": HOSTILE}))
    (paths.checkpoints / "step-3").mkdir()
    (paths.checkpoints / "step-3" / "manifest.json").write_text(json.dumps({"format": HOSTILE}))
    base = header()
    roster = [{**mech, "name": HOSTILE} for mech in base["roster"]]
    teams = [{**team, "name": HOSTILE, "checkpoint": HOSTILE} for team in base["teams"]]
    write_match(paths.replays / f"{NAME}.ecr", roster=roster, teams=teams, run=HOSTILE, echelon=HOSTILE)
    return paths


def make_league(home: Path) -> Path:
    """Write a league whose ids, labels, jobs, reasons and file names are hostile."""
    path = league_path(home)
    ids = [f"{HOSTILE}{n}" for n in range(3)]
    with Store(path) as store:
        with store.editing() as league:
            for name in ids:
                meta = {"label": name, "target": HOSTILE, "run": HOSTILE, HOSTILE: HOSTILE}
                league.entries[name] = LeagueEntry(name, HOSTILE, "candidate", meta=meta)
        for number in (1, 2):
            pairs = [(a, b) for a in ids for b in ids if a != b]
            period = store.open_period(HOSTILE, number, [Fixture(n, *pair, seed=n) for n, pair in enumerate(pairs)])
            for fixture in store.unplayed(period):
                style = {"matches": 1.0, f"damage.{HOSTILE}": 1.0, f"lost.{HOSTILE}": 1.0}
                record = MatchRecord(winner="blue", reason=HOSTILE, note=HOSTILE, styles=(style, style))
                store.record(period, fixture.number, record)
            if number == 1:
                store.close_period(period)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE matches SET replay = ?, played_at = ?", (HOSTILE, HOSTILE))
        db.execute("UPDATE entries SET created_at = ?", (HOSTILE,))
    return path


def make_recording(home: Path) -> Path:
    """Write an empty recording of demonstrations whose every text is hostile."""
    side = DemoSide(name=HOSTILE, checkpoint=HOSTILE)
    manifest = Manifest(
        obs_dim=1,
        action_dim=1,
        env=EnvConfig(),
        policy=side,
        opponent=side,
        weapon_prob=1.0,
        first_seed=0,
        matches=0,
        versions={HOSTILE: HOSTILE},
    )
    folder = home / f"{NAME}-demos"
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest)))
    return folder


def make_home(home: Path) -> Path:
    """Write a runs folder: two runs, a league, a file that is no league, a recording, a configuration file."""
    make_recording(home)
    make_run(home)
    make_run(home, f"20260102-000000-{NAME}-keen-newt")
    make_league(home)
    (home / f"{NAME}.toml").write_text(f"{json.dumps(HOSTILE).replace(chr(127), '')} = 1\n")
    (home / f"{NAME}.json").write_text(json.dumps({"schema_version": HOSTILE}))
    return home


def files_of(home: Path) -> dict[str, str]:
    """Return the paths that a command may be given, by what they are."""
    return {
        "home": str(home),
        "run": str(home / RUN),
        "replay": str(home / RUN / "replays" / f"{NAME}.ecr"),
        "config": str(home / f"{NAME}.toml"),
        "league": str(home / f"{NAME}.json"),
        "demos": str(home / f"{NAME}-demos"),
    }
