"""Agents over their standard streams: each fault has its reason, and a late answer is never taken for the next one."""

import sys
from pathlib import Path

import numpy as np
import pytest

from echelon.agent_files import agent_file, named_agent
from echelon.rl import agent_process
from echelon.rl.agent_process import MOST_FAULTS, AgentTeams

GAME = {"columns": ["a", "b"], "actions": ["x", "y", "z"], "mechs": 2}
ROWS = np.arange(4, dtype=np.float32).reshape(2, 2)
STREAMS = """
import sys, msgpack
def messages():
    while head := sys.stdin.buffer.read(4):
        yield msgpack.unpackb(sys.stdin.buffer.read(int.from_bytes(head, "big")))
def answer(message):
    packed = msgpack.packb(message)
    sys.stdout.buffer.write(len(packed).to_bytes(4, "big") + packed)
    sys.stdout.buffer.flush()
"""
AGENT = """
import struct
for message in messages():
    if message["type"] == "hello":
        answer({"type": "hello"})
    elif message["type"] == "act":
        number, rows = message["decision"], struct.unpack("<4f", message["observations"])
        actions = [[sum(rows), number, mech] for mech in message["mechs"]]
        INSTEAD
        answer({"decision": number, "actions": actions})
"""
FAULTS = {
    "sys.exit('out of memory')": "dead: it ended with status 1: out of memory",
    "sys.stderr.write('TypeError: no key\\n at 3\\n'); sys.exit(2)": "dead: it ended with status 2: TypeError",
    "continue": "late: no answer within 0.1 s, and its time bank is empty",
    "print('hello', flush=True); continue": "wrong: it begins with b'hello",
    "answer(7); sys.stdout.buffer.write(b'\\0\\0\\0\\1\\xc1'); sys.stdout.flush(); continue": "wrong: a message that",
    "actions = actions[:1]": "wrong: actions that are not 2 rows of 3 numbers",
    "actions = 'none'": "wrong: actions that are not 2 rows of 3 numbers",
    "actions[1][1] = float('nan')": "wrong: actions that are not finite",
}


@pytest.fixture
def teams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Teams of an agent whose source is given."""
    monkeypatch.setattr(agent_process, "BANK_S", 0.2)
    made = []

    def make(source: str) -> AgentTeams:
        (tmp_path / "agent.py").write_text(STREAMS + source)
        command = f"{sys.executable} agent.py"
        made.append(AgentTeams(command=command, folder=str(tmp_path), game=GAME, num_actions=3))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_agents_of_two_teams_get_their_rows_and_play_one_match_after_another(teams):
    found = teams(AGENT.replace("INSTEAD", "if number == 2: actions = struct.pack('<6f', *sum(actions, []))"))
    one, two = found.begin(2)
    for decision in (1, 2):
        actions = found.act({one: ([0, 1], ROWS), two: ([1, 4], 2 * ROWS)})
        assert actions[one].tolist() == [[6, decision, 0], [6, decision, 1]]
        assert actions[two].tolist() == [[12, decision, 1], [12, decision, 4]]
    processes = {team.process for team in found._teams.values()}
    found.act({two: ([1], ROWS)})  # the first match is over
    (three,) = found.begin(1)
    assert {team.process for team in found._teams.values()} == processes
    assert found.act({two: ([1, 4], ROWS), three: ([0, 1], ROWS)})[three][0, 1] == 1
    assert found.report() == "" and found.close() == []


@pytest.mark.parametrize(("instead", "reason"), FAULTS.items())
def test_a_fault_leaves_mechs_idle_and_three_lose_the_match(teams, instead, reason):
    found = teams(AGENT.replace("INSTEAD", f"if number == 2 or {MOST_FAULTS} <= number: {instead}"))
    (number,) = found.begin(1)
    lost = []
    while not found.lost:
        assert len(lost) < 2 * MOST_FAULTS
        lost.append(number not in found.act({number: ([0, 1], ROWS)}))
    assert lost[:2] == [False, True] and sum(lost) == MOST_FAULTS
    assert found.act({number: ([0, 1], ROWS)}) == {}, "it is not asked any more"
    assert f"medium took over in 1 matches, the first at decision 2: {reason}" in found.report()
    (again,) = found.begin(1)
    assert found.act({again: ([0, 1], ROWS)})[again].shape == (2, 3), "the next match has a new process"


def test_a_late_answer_is_dropped(teams):
    late = "if number == 1: late = actions; continue\n        if number == 2: answer({'decision': 1, 'actions': late})"
    found = teams(AGENT.replace("INSTEAD", late))
    (number,) = found.begin(1)
    assert found.act({number: ([0, 1], ROWS)}) == {}
    assert found.act({number: ([0, 1], ROWS)})[number][0, 1] == 2


def test_an_agent_without_hello_is_started_once(teams, tmp_path, monkeypatch):
    monkeypatch.setattr(agent_process, "START_S", 0.5)
    found = teams("open('started', 'a').write('x')\nfor message in messages(): pass")
    for _ in range(3):
        (number,) = found.begin(1)
        assert found.act({number: ([0, 1], ROWS)}) == {}
    assert (tmp_path / "started").read_text() == "x" and "no hello within" in found.report()


def test_an_agent_that_outlives_its_input_is_ended_with_what_it_started(teams):
    found = teams("import time\nanswer({'type': 'hello'})\nfor message in messages(): pass\ntime.sleep(600)")
    found.begin(1)
    assert found.close() == ["wrong: it did not exit within 1 s of the end of its input"]


def test_only_commands_that_the_user_has_named_run(tmp_path):
    own = agent_file("python agent.py")
    assert named_agent(own.read_bytes(), own) == {"agent": "python agent.py", "folder": str(Path.cwd())}
    foreign = own.read_bytes().replace(b"agent.py", b"other.py")
    with pytest.raises(ValueError, match=r"'python other.py' is new here and was not run; name it as process:COMMAND"):
        named_agent(foreign, tmp_path / "policy.json")
    for damaged in (b'{"agent": 3, "folder": ""}', b"{}", b"[1]"):
        with pytest.raises(ValueError, match=r"policy.json' is not the file of an agent"):
            named_agent(damaged, tmp_path / "policy.json")
