"""Program that a host runs to send its run folders: standard library only, any Python from 3.6 on.

It reads a JSON line with the folder, what the reader has, and limits, then writes frames for ever: a JSON line, and as
many compressed bytes as its ``size`` says. Appended files are sent from where the reader stopped.
"""

import errno
import fcntl
import json
import os
import sys
import time
import zlib

WHOLE = ("spec.json", "resume.json", "exit.json", "proc.json", "progress.json", "labels.json", "queue.json")
APPENDED = ("metrics.jsonl", "evals.jsonl", "matches.jsonl", "log/trainer.log")
CHUNK = 1 << 20
ALIVE_S = 20.0
"""Time after which a frame is sent although nothing has changed, so that a closed connection ends the program [s]."""


def send(out, limits, row, data):
    """Write a frame, not faster than the limit allows."""
    body = zlib.compress(data)
    row["size"] = len(body)
    out.write(json.dumps(row).encode() + b"\n" + body)
    out.flush()
    time.sleep(len(body) / limits["bytes_per_s"])


def is_held(path):
    """Whether a supervisor holds the lock of a run."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    finally:
        os.close(handle)
    return False


def send_whole(out, limits, known, root, run, name):
    """Send a small file that has changed."""
    path = os.path.join(root, run, name)
    try:
        found = os.stat(path)
        state = [found.st_mtime_ns, found.st_size]
        if known.get(name) == state or found.st_size > CHUNK:
            return
        with open(path, "rb") as file:
            data = file.read(CHUNK)
    except OSError:
        if known.pop(name, None) is not None:
            send(out, limits, {"run": run, "file": name, "op": "delete"}, b"")
        return
    known[name] = state
    send(out, limits, {"run": run, "file": name, "op": "whole", "state": state}, data)


def send_appended(out, limits, known, root, run, name, most):
    """Send what was appended to a file; of a long one that the reader does not have, the first line and the end."""
    path = os.path.join(root, run, name)
    try:
        file = open(path, "rb")
    except OSError:
        return
    with file:
        found = os.fstat(file.fileno())
        inode, offset = known.get(name) or (0, 0)
        op = "append"
        if inode != found.st_ino or offset > found.st_size:
            op, offset = "start", 0
        if offset == found.st_size:
            return
        head = b""
        if found.st_size - offset > most:
            head = file.readline(CHUNK) if op == "start" else b""
            offset = found.st_size - most
            file.seek(offset)
            offset += len(file.readline(CHUNK))
        file.seek(offset)
        while True:
            data = file.read(min(CHUNK, found.st_size - offset))
            if not data:
                break
            offset += len(data)
            known[name] = [found.st_ino, offset]
            send(out, limits, {"run": run, "file": name, "op": op, "state": known[name]}, head + data)
            head, op = b"", "append"


def main():
    """Send changes until the reader goes away."""
    request = json.loads(sys.stdin.buffer.readline().decode())
    root, known, limits = os.path.expanduser(request["root"]), request["have"], request["limits"]
    out = sys.stdout.buffer
    last, sent_at = None, 0.0
    while True:
        try:
            names = [name for name in os.listdir(root) if name[:1] not in ".-"]
            problem = ""
        except OSError as error:
            names, problem = [], f"folder {root!r} cannot be read: {(error.strerror or 'system error').lower()}"
        runs = sorted((n for n in names if os.path.isfile(os.path.join(root, n, "spec.json"))), reverse=True)
        held = [run for run in runs if is_held(os.path.join(root, run, "supervisor.lock"))]
        runs = runs[: limits["runs"]]
        for number, run in enumerate(runs):
            files = known.setdefault(run, {})
            is_recent = number < limits["recent"] or run in held
            for name in WHOLE:
                send_whole(out, limits, files, root, run, name)
            for name in APPENDED:
                send_appended(out, limits, files, root, run, name, limits["long" if is_recent else "short"])
        row = {"runs": runs, "running": held, "problem": problem}
        if row != last or time.time() - sent_at > ALIVE_S:
            send(out, limits, {"op": "runs"}, json.dumps(row).encode())
            last, sent_at = row, time.time()
        time.sleep(limits["poll_s"])


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)
