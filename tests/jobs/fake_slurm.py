"""Stand-in of SLURM's commands on one machine: ``sbatch``, ``srun``, ``sacct`` and ``scancel`` over nodes with slots.

A job is a process that waits for a free slot of a node that is up; killing a node kills every process of its jobs at
once, which then have the state NODE_FAIL.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER_VARIABLE, NODE_VARIABLE = "FAKE_SLURM", "SLURMD_NODENAME"
POLL_S = 0.05
COMMANDS = ("sbatch", "srun", "sacct", "scancel")


def folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])


def write(number: str, **changes) -> None:
    path = folder() / f"job-{number}.json"
    row = json.loads(path.read_text()) if path.exists() else {}
    path.with_suffix(".new").write_text(json.dumps({**row, **changes}))
    path.with_suffix(".new").replace(path)


def read(number: str) -> dict:
    return json.loads((folder() / f"job-{number}.json").read_text())


def sbatch(script: str) -> None:
    with open(folder() / "counter", "a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.write("x")
        counter.flush()
        number = str(counter.tell())
    name = re.search(r"--job-name=(\S+)", Path(script).read_text())
    copied = folder() / f"job-{number}.sh"
    copied.write_text(Path(script).read_text())
    write(number, name=name[1] if name else "", state="PENDING", node="")
    subprocess.Popen(
        [sys.executable, __file__, "run", number], start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=open(folder() / "log", "a"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    print(f"Submitted batch job {number}")


def run(number: str) -> None:
    """Wait for a slot and run the script of a job there."""
    while (held := free_slot()) is None:
        if read(number)["state"] != "PENDING":
            return
        time.sleep(POLL_S)
    node, _ = held
    script = (folder() / f"job-{number}.sh").read_text()
    output = re.search(r"--output=(\S+)", script)
    log = open(output[1].replace("%j", number), "a") if output else subprocess.DEVNULL
    write(number, state="RUNNING", node=node)
    child = subprocess.Popen(
        ["bash", "-c", script], env={**os.environ, NODE_VARIABLE: node, "SLURM_JOB_ID": number}, stdout=log,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    code = child.wait()
    failed = (folder() / f"{node}.down").exists()
    write(number, state="NODE_FAIL" if failed else "COMPLETED" if code == 0 else "FAILED")


def free_slot() -> tuple[str, object] | None:
    """Return a node with a lock on one of its slots; None where every slot is in use."""
    for path in sorted(folder().glob("node*.slot*")):
        node = path.name.partition(".")[0]
        held = open(path)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not (folder() / f"{node}.down").exists():
                return node, held
        held.close()
    return None


def srun(*words: str) -> None:
    rest = list(words)
    while rest[0].startswith("--"):
        del rest[: 1 if rest[0] == "--unbuffered" else 2]
    task = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    os.environ.update(task | {"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": os.environ[NODE_VARIABLE]})
    os.execvp(rest[0], rest)


def sacct(*words: str) -> None:
    print("JobID|State|NodeList")
    for word in words:
        if word.isdecimal():
            print(f"{word}|{read(word)['state']}|{read(word)['node']}")


def scancel(number: str) -> None:
    row, root = read(number), str(folder())
    write(number, state="CANCELLED")
    own = {FOLDER_VARIABLE: root, "SLURM_JOB_ID": number, NODE_VARIABLE: row["node"]}
    kill(lambda env: own.items() <= env.items(), signal.SIGTERM)


def kill(matches: Callable[[dict[str, str]], bool], number: int = signal.SIGKILL) -> None:
    """Signal every process whose environment matches."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if matches(process.environ()):
                process.send_signal(number)


class Cluster:
    """Two nodes with two slots each, whose commands are on PATH."""

    text = "slurm:time=10"
    variable = NODE_VARIABLE

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root = root
        (root / "bin").mkdir(parents=True)
        for slot in ("node1.slot0", "node1.slot1", "node2.slot0", "node2.slot1"):
            (root / slot).touch()
        for name in COMMANDS:
            path = root / "bin" / name
            path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} {name} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv(FOLDER_VARIABLE, str(root))
        monkeypatch.setenv("PATH", f"{root / 'bin'}:{os.environ['PATH']}")

    def kill_node(self, node: str) -> None:
        """Kill every process on a node, which stays down."""
        (self.root / f"{node}.down").touch()
        own = {FOLDER_VARIABLE: str(self.root), NODE_VARIABLE: node}
        for _ in range(2):
            kill(lambda env: own.items() <= env.items())

    def end(self) -> None:
        kill(lambda env: env.get(FOLDER_VARIABLE) == str(self.root) and NODE_VARIABLE in env)
        for path in self.root.glob("job-*.json"):
            number = path.stem.removeprefix("job-")
            if read(number)["state"] == "PENDING":
                write(number, state="CANCELLED")


if __name__ == "__main__":
    {"sbatch": sbatch, "srun": srun, "sacct": sacct, "scancel": scancel, "run": run}[sys.argv[1]](*sys.argv[2:])
