"""Stand-in of SLURM's commands on one machine over nodes with slots; ``scontrol requeue`` only writes its arguments.

A job is a process that waits for a free slot on each of its nodes; a step is the processes of an ``srun``. Killing
a node kills its processes at once and then the others of its jobs, which have the state NODE_FAIL.
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
STEP_VARIABLE = "SLURM_STEP_ID"
COMMANDS = ("sbatch", "srun", "sacct", "scancel", "scontrol")


def folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])


def write(number: str, **changes) -> None:
    path = folder() / f"job-{number}.json"
    row = json.loads(path.read_text()) if path.exists() else {}
    path.with_suffix(".new").write_text(json.dumps({**row, **changes}))
    path.with_suffix(".new").replace(path)


def read(number: str) -> dict:
    return json.loads((folder() / f"job-{number}.json").read_text())


def sbatch(script: str, *arguments: str) -> None:
    with open(folder() / "counter", "a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.write("x")
        counter.flush()
        number = str(counter.tell())
    name = re.search(r"--job-name=(\S+)", Path(script).read_text())
    copied = folder() / f"job-{number}.sh"
    copied.write_text(Path(script).read_text())
    write(number, name=name[1] if name else "", state="PENDING", node="", arguments=arguments)
    subprocess.Popen(
        [sys.executable, __file__, "run", number], start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=open(folder() / "log", "a"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    print(f"Submitted batch job {number}")


def run(number: str) -> None:
    """Wait for a slot on each node and run the script of a job on the first."""
    script = (folder() / f"job-{number}.sh").read_text()
    count = re.search(r"--nodes=(\d+)", script)
    while len(held := free_slots(int(count[1]) if count else 1)) == 0:
        if read(number)["state"] != "PENDING":
            return
        time.sleep(POLL_S)
    nodes, own = list(held), {FOLDER_VARIABLE: str(folder()), "SLURM_JOB_ID": number}
    output = re.search(r"--output=(\S+)", script)
    log = open(output[1].replace("%j", number), "a") if output else subprocess.DEVNULL
    write(number, state="RUNNING", node=nodes[0])
    sizes = {"SLURM_JOB_NUM_NODES": str(len(nodes)), "SLURM_JOB_NODELIST": ",".join(nodes), "SLURM_CPUS_PER_TASK": "1"}
    child = subprocess.Popen(
        ["bash", "-c", script, "script", *read(number)["arguments"]],
        env={**os.environ, **own, **sizes, NODE_VARIABLE: nodes[0]}, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    failed = False
    while child.poll() is None and not failed:
        time.sleep(POLL_S)
        failed = any((folder() / f"{node}.down").exists() for node in nodes)
    if failed:
        for _ in range(2):
            kill(lambda env: own.items() <= env.items() and NODE_VARIABLE in env)
    write(number, state="NODE_FAIL" if failed else "COMPLETED" if child.wait() == 0 else "FAILED")


def free_slots(count: int) -> dict[str, object]:
    """Return ``count`` nodes with a lock on one slot of each; none where there are fewer."""
    found: dict[str, object] = {}
    for path in sorted(folder().glob("node*.slot*")):
        node = path.name.partition(".")[0]
        if len(found) == count or node in found or (folder() / f"{node}.down").exists():
            continue
        held = open(path)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found[node] = held
    return found if len(found) == count else {}


def srun(*words: str) -> None:
    """Run a command as a step: here, or with ``--ntasks`` once on each node of the job.

    A signal reaches every process of the step. A task that ends gives the others ``--wait`` seconds, and the code is
    the highest of all, 128 and the number for a signal.
    """
    rest, options = list(words), {}
    while rest[0].startswith("--"):
        name, given, value = rest.pop(0).partition("=")
        options[name] = value if given or name in ("--unbuffered", "--overlap") else rest.pop(0)
    count, nodes = int(options.get("--ntasks", 1)), os.environ["SLURM_JOB_NODELIST"].split(",")
    os.environ.update({STEP_VARIABLE: str(os.getpid()), "SLURM_NTASKS": str(count)})
    task = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    if count == 1:
        os.environ.update(task)
        os.execvp(rest[0], rest)
    own = {STEP_VARIABLE: str(os.getpid()), FOLDER_VARIABLE: str(folder())}
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, lambda number, _: kill(lambda env: own.items() <= env.items(), number))
    tasks = []
    for at, node in enumerate(nodes):
        task |= {NODE_VARIABLE: node, "SLURM_PROCID": str(at), "SLURM_NODEID": str(at)}
        tasks.append(subprocess.Popen(rest, env={**os.environ, **task}))
    deadline = float("inf")
    while any(child.poll() is None for child in tasks):
        if any(child.poll() is not None for child in tasks):
            deadline = min(deadline, time.monotonic() + float(options["--wait"]))
        if time.monotonic() > deadline:
            kill(lambda env: own.items() <= env.items())
        time.sleep(POLL_S)
    sys.exit(max(128 - child.returncode if child.returncode < 0 else child.returncode for child in tasks))


def scontrol(*words: str) -> None:
    with open(folder() / "requeued", "a") as log:
        print(*words, file=log)


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

    def signal(self, number: int) -> None:
        """Signal every process of a step, as SLURM does before the end of a job."""
        own = {FOLDER_VARIABLE: str(self.root)}
        kill(lambda env: own.items() <= env.items() and STEP_VARIABLE in env, number)

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
    {call.__name__: call for call in (sbatch, srun, sacct, scancel, scontrol, run)}[sys.argv[1]](*sys.argv[2:])
