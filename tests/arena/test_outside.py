"""Players that are no network of Echelon: agents in three languages, those that fail, ONNX models, sandboxes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from echelon import champion
from echelon_cli import output
from tests.cli.conftest import echelon, parsed

assert echelon
EXAMPLES = Path(__file__).parents[2] / "examples/agents"
PYTHON = f"process:{sys.executable} {EXAMPLES / 'agent.py'}"
SMALL = ("--size", "60", "--seconds", "30", "--matches", "2")
QUITTER = "import sys; head = sys.stdin.buffer.read(4); sys.exit('no')"


def played(echelon, *words):
    code, out, err = echelon("sim", *SMALL, *words, "--json")
    assert code == output.DONE, err
    return parsed(out)


def matches_of(found):
    return [{key: value for key, value in row.items() if key not in ("blue", "red")} for row in found["rows"]]


def test_agents_in_c_and_python_play_equal_matches_alone_and_in_a_batch(echelon, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    agent = tmp_path / "agent"
    subprocess.run([compiler, "-O2", "-o", agent, EXAMPLES / "agent.c", "-lm"], check=True)
    in_python = played(echelon, "--blue", PYTHON, "--red", "trivial")
    in_c = played(echelon, "--blue", f"process:{agent}", "--red", "trivial", "--envs", "1")
    assert matches_of(in_c) == matches_of(in_python)
    assert in_python["pilots"][0]["wins"] == 2 and in_python["note"] == ""


def test_a_scripted_pilot_flies_for_an_agent_that_fails(echelon):
    found = played(echelon, "--blue", f'process:{sys.executable} -c "{QUITTER}"', "--red", "trivial")
    assert "medium took over in 2 matches, the first at decision 1: dead: it ended with status 1: no" in found["note"]
    assert found["pilots"][0]["wins"] == 2, "an idle team does not win"


def test_agents_are_evaluated_and_rated_under_their_names(echelon):
    short = ("--seeds", "1", "--threads", "1", "--json")
    code, out, err = echelon("eval", "champion", "--opponent", PYTHON, *short)
    assert code == output.DONE, err
    calls = parsed(out)["commanders"][PYTHON]
    assert calls["failed"] == 0 and calls["calls"] > 50
    code, out, err = echelon("arena", "add", PYTHON, "--json")
    assert code == output.DONE and PYTHON.removeprefix("process:") in out, err


def test_check_names_every_fault_and_fails(echelon):
    code, out, _ = echelon("agent", "check", PYTHON.removeprefix("process:"), "--matches", "2")
    assert code == output.DONE and out.rstrip().endswith("passed")
    code, out, _ = echelon("agent", "check", f'{sys.executable} -c "{QUITTER}"', "--matches", "2", "--json")
    found = parsed(out)
    assert code == 1 and found["taken_over"] == 2 and found["log"].strip() == "no"
    assert found["faults"] == ["decision 1: dead: it ended with status 1: no"]


def test_an_onnx_model_plays_as_its_policy_does(echelon, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = tmp_path / "champion.onnx"
    code, _, err = echelon("policy", "export", champion.NAME, "--onnx", str(model))
    assert code == output.DONE, err
    won = played(echelon, "--blue", f"onnx:{model}", "--red", "hard", "--matches", "4")["pilots"][0]["wins"]
    assert won >= 3, "its memory is kept between decisions"
    model.write_bytes(b"\x08" + model.read_bytes()[:100])
    code, _, err = echelon("sim", "--blue", str(model), "--matches", "2")
    assert code == output.FAILED and "is not an ONNX model" in err and err.count("\n") == 1


SANDBOX = "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp"
LIMITS = "prlimit --as=2000000000 --nproc=64 --cpu=600"
BURGLAR = """
import os, socket, sys
for what in ("open('/escaped', 'w')", "socket.create_connection(('127.0.0.1', PORT))", "bytearray(3 << 30)"):
    try:
        exec(what)
        sys.stderr.write("escaped: " + what)
    except (OSError, MemoryError):
        sys.stderr.write("held. ")
"""


def test_the_sandbox_of_the_docs_holds(echelon, tmp_path):
    if not shutil.which("bwrap") or subprocess.run([*SANDBOX.split(), "true"], capture_output=True).returncode:
        pytest.skip("needs bubblewrap")
    docs = (EXAMPLES.parents[1] / "docs/howto/agents.md").read_text()
    assert SANDBOX in docs and LIMITS in docs
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "burglar.py").write_text(BURGLAR.replace("PORT", str(server.getsockname()[1])))
        python = Path(sys.base_prefix) / "bin/python3"  # an environment below /tmp is not in the sandbox
        command = f"{SANDBOX} --ro-bind {tmp_path} {tmp_path} --chdir {tmp_path} {LIMITS} {python} burglar.py"
        _, out, _ = echelon("agent", "check", command, "--matches", "2", "--json")
    assert parsed(out)["log"] == "held. held. held. "
