"""``echelon serve`` and ``echelon watch``: output, exit codes, a working URL."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

import echelon
from echelon.replay.match_text import match_title
from echelon.runs import RunNotFoundError
from echelon.server import app
from echelon.server.app import SERVER_FILE
from echelon.server.security import Access
from echelon_cli.commands import serve
from echelon_cli.main import run
from tests.replay.golden import SMALL
from tests.server.conftest import MATCH, RUN


def start(home, *arguments):
    environment = {**os.environ, "ECHELON_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    environment.pop("SSH_CONNECTION", None)
    command = [sys.executable, "-m", "echelon_cli.main", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def interrupt(process):
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=10)


def test_serve_runs_until_interrupted(home):
    process = start(home, "serve", "--json")
    try:
        url = json.loads(process.stdout.readline())["url"]
        with urllib.request.urlopen(f"{url}api/v1/matches", timeout=5) as reply:
            assert json.loads(reply.read())["total"] == 1
        second = start(home, "watch", "--json", "--no-open")
        assert json.loads(second.communicate(timeout=20)[0])["url"] == f"{url}#match={MATCH}"
        assert second.returncode == 0
    finally:
        assert interrupt(process) == 0
    assert not (home / ".server.json").exists()


def test_serve_runs_where_its_address_cannot_be_stored(home, caplog):
    (home / SERVER_FILE).mkdir()

    def ready(access):
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)

    app.serve(home, port=0, ready=ready)
    assert f"{SERVER_FILE} cannot be written" in caplog.text


def test_serve_reports_port_in_use_in_one_line(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["serve", "--port", str(port)]) == 1
    assert capsys.readouterr().err.strip().splitlines() == [
        f"error: port {port} of 127.0.0.1 is in use, expected a free one; omit --port to pick one automatically"
    ]


@pytest.mark.parametrize(("what", "code"), [("nosuchrun", 3), ("bad.ecr", 1)])
def test_watch_reports_missing_runs_and_damaged_replays_in_one_line(home, monkeypatch, capsys, what, code):
    monkeypatch.setenv("ECHELON_HOME", str(home))
    monkeypatch.chdir(home)
    (home / "bad.ecr").write_bytes(b"nothing of the kind")
    assert run(["watch", what, "--no-open"]) == code
    errors = capsys.readouterr().err
    assert what in errors and len(errors.strip().splitlines()) == 1


def test_watch_opens_replay_file_at_any_path(home, tmp_path):
    file = tmp_path / "some where" / "my match.ecr"
    file.parent.mkdir()
    file.write_bytes(SMALL.read_bytes())
    process = start(tmp_path / "nothing here", "watch", str(file), "--json", "--no-open")
    try:
        url = json.loads(process.stdout.readline())["url"]
        address, _, match = url.partition("#match=")
        with urllib.request.urlopen(f"{address}api/v1/matches/{match}", timeout=5) as reply:
            assert json.loads(reply.read())["header"]["seed"] == 2**30
        with urllib.request.urlopen(f"{address}api/v1/matches/{match}/chunks/0", timeout=5) as reply:
            assert reply.status == 200
    finally:
        assert interrupt(process) == 0


def test_match_is_found_by_id_and_run_in_commands_and_python(home, monkeypatch):
    monkeypatch.setenv("ECHELON_HOME", str(home))
    for what in (MATCH, RUN, "otter", "latest"):
        assert serve.fragment_of(what, follow=False) == f"#match={MATCH}"
        with echelon.Replay(what) as replay:
            assert echelon.show(what).title == match_title(replay.header) and replay.path.parent.parent.name == RUN
    (home / RUN / "replays").rename(home / RUN / "elsewhere")
    with pytest.raises(RunNotFoundError, match="has no recorded match yet"):
        serve.fragment_of(RUN, follow=False)
    with pytest.raises(RunNotFoundError, match="'nowhere' does not exist"):
        echelon.show("nowhere")
    with pytest.raises(FileNotFoundError):
        echelon.Replay("missing.ecr")


def test_show_address_prints_ssh_tunnel(monkeypatch, capsys):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 5555 10.0.0.9 22")
    serve.show_address("http://127.0.0.1:8401/#match=1", False, False)
    text = capsys.readouterr().out
    assert "ssh -L 8401:127.0.0.1:8401 " in text and "@10.0.0.9" in text
    assert not serve.browser_here()
    monkeypatch.delenv("SSH_CONNECTION")
    assert serve.tunnel_to("http://127.0.0.1:8401/") == ""


@pytest.mark.parametrize(
    ("connection", "url", "command"),
    [
        ("10.0.0.2 5 10.0.0.9 2222", "http://127.0.0.1:1/", "ssh -p 2222 -L 1:127.0.0.1:1 ada@10.0.0.9"),
        ("fd00::2 5 fd00::9 22", "http://[::1]:1/?token=x#y", "ssh -L '1:[::1]:1' ada@fd00::9"),
        ("fe80::2%e 5 fe80::9%eth0 22", "http://localhost:1/", "ssh -L 1:localhost:1 ada@mars"),
        ("UNKNOWN 65535 UNKNOWN 65535", "http://localhost:1/", "ssh -L 1:localhost:1 ada@mars"),
        ("10.0.0.2 5 10.0.0.9 22", "http://10.0.0.9:1/", ""),
    ],
)
def test_tunnel_names_the_port_of_sshd_and_the_bound_address(monkeypatch, connection, url, command):
    monkeypatch.setenv("SSH_CONNECTION", connection)
    monkeypatch.setattr(serve.getpass, "getuser", lambda: "ada")
    monkeypatch.setattr(serve.socket, "gethostname", lambda: "mars")
    assert serve.tunnel_to(url) == command


def test_server_on_every_interface_prints_an_address_of_this_machine_and_one_for_others(monkeypatch, capsys):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    access = Access("0.0.0.0", 8400, "secret")
    serve.announce(access, "#m", False, False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "http://127.0.0.1:8400/?token=secret#m" and lines[2].endswith(":8400/?token=secret#m")
    host = lines[2].partition("//")[2].partition(":")[0]
    assert access.host_allowed(host) or host == socket.gethostname()


def test_server_processes_load_neither_torch_nor_warp():
    code = """
import sys, echelon.server.app, echelon_cli.commands.serve
from echelon_cli.commands import play
play._config(opponent=play._name('expert'), preset='duel')
sys.exit(any(m in sys.modules for m in ('torch', 'warp')))"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
