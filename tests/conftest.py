"""Fixtures that several packages share."""

import asyncio
import fcntl
import gc
import inspect
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from echelon.training.runtime.threads import thread_environment

gc.disable()
# until all tests are collected
os.environ.update(thread_environment())
# as jobs do, before torch is loaded: its threads would wait for each other, and beside a busy process for ever

ROOT = Path(__file__).resolve().parents[1]

HOSTILE_NAMES = {
    "quotes": 'it\'s  "two  words"',
    "newline": "first\nsecond",
    "unicode": "größe-机甲-🤖",
    "shell": "a;b & $HOME `x` *",
}
"""Folder names that break careless code."""


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Commands that tests start can be interrupted, also where the tests run in the background of a script."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _maps_in_memory() -> None:
    """Maps that were read from the cache stay in memory: reading takes a third of the time of a small environment."""
    from echelon.gen import map_sampling

    load_map = map_sampling.load_map
    read = lru_cache(256)(lambda path, changed: load_map(path))
    map_sampling.load_map = lambda path: read(path, path.exists() and path.stat().st_mtime_ns)


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_compiled_once() -> None:
    """Workers of a fresh machine compile each kernel once, natively and to WebAssembly: each would compile all."""
    from echelon.sim import backend
    from echelon.web import compile as web

    load, path = backend.load_modules, Path(tempfile.gettempdir()) / f"echelon-kernels-{os.getuid()}.lock"

    def load_alone(*arguments: Any) -> None:
        with open(path, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            load(*arguments)

    compile_source = web._compile

    def compile_alone(name: str, text: str, folder: Path, scratch: Path) -> Path:
        with open(path.with_suffix(f".{name}"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return compile_source(name, text, folder, scratch)

    backend.load_modules, web._compile = load_alone, compile_alone


@pytest.fixture(autouse=True)
def _own_home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test sees or touches the runs of whoever runs it; commands that it starts elsewhere are this checkout's."""
    if "tmp_path" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path")
    else:  # which takes milliseconds to number where there are thousands
        folder = tmp_path_factory.getbasetemp() / "homes" / f"{time.monotonic_ns()}"
        folder.mkdir(parents=True)
    monkeypatch.setenv("ECHELON_HOME", str(folder / "runs"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def jobs_in_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs run in this process when they are launched, instead of in a supervised one."""
    import contextlib
    import importlib
    import json

    from echelon.jobs import control, launch, worker
    from echelon.jobs.exits import exit_record
    from echelon.jobs.spec import write_spec

    def run(paths, spec, kind, arguments=(), named=()):
        write_spec(paths, spec)
        control.clear(paths)
        work = importlib.import_module(kind.module).work
        with open(paths.log_worker, "a") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            code = worker.main([str(paths.root), *arguments], work=work, phase="playing")
        paths.exit.write_text(json.dumps(exit_record(paths, code, earlier_bytes=0, oom=False)))

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    monkeypatch.setattr(launch, "launch", run)
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(params=HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def hostile_home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs folder under a name that breaks careless code."""
    home = tmp_path / request.param
    monkeypatch.setenv("ECHELON_HOME", str(home))
    return home


@pytest.fixture
def rng() -> random.Random:
    return random.Random(7)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop in which a coroutine test runs, for fixtures that open something in it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    pyfuncitem._request.getfixturevalue("runner").run(pyfuncitem.obj(**arguments))
    return True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m long`` load only the files that contain the word, a third of them."""
    if config.option.markexpr == "long" and collection_path.suffix == ".py":
        return not re.search(r"\blong\b", collection_path.read_text(encoding="utf-8")) or None
    return None


def pytest_collection_finish() -> None:
    """Leave the modules and tests that were loaded, millions of objects, out of all garbage collections."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a GPU where there is none; torch is loaded only if such tests were collected.

    The files that take longest begin, since one of them last would run beside none.
    """
    items.sort(key=lambda item: item.path.parent.name != "web")
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu:
        return
    import torch

    if not torch.cuda.is_available():
        for item in gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
