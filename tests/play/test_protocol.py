"""Messages of play sessions: form, limits and versions."""

import msgpack
import pytest

from echelon import play_protocol as play
from tests.replay.typescript import play_types


def test_client_messages_survive_packing():
    sent = [
        play.Hello(version=play.PLAY_VERSION, token="t"),
        play.Take(mech="B1"),
        play.Leave(),
        play.Input(seq=1, action=bytes(18)),
        play.Watch(step=-1),
        play.OrderMates(order="hold", mechs=["B2"], target="R1"),
        play.Pace(paused=True, speed=0.25),
        play.Start(source=play.Source(run="r", file="m.ecr"), tick=120, pilots={"red": "medium"}, changes={"a": 1.0}),
        play.WhatIf(id=1, source=play.Source(), tick=0),
        play.Coach(id=2, source=play.Source(), who="B2"),
        play.Cancel(id=1),
        play.Ping(n=5),
    ]
    assert {type(message) for message in sent} == set(play.FROM_CLIENT)
    assert [play.parse_client(play.pack(message)) for message in sent] == sent


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\xc1", "cannot be read"),
        (b"", "cannot be read"),
        (b"\x91" * 4000, "cannot be read"),
        (bytes(play.MAX_CLIENT_BYTES + 1), "at most 4096"),
        (msgpack.packb([1]), "unknown type"),
        (msgpack.packb({"t": ["take"]}), "unknown type"),
        (msgpack.packb({"t": "frame"}), "unknown type"),
        (msgpack.packb({"t": "hello"}), "version"),
        (msgpack.packb({"t": "take", "mech": 5}), "mech"),
        (msgpack.packb({"t": "take", "path": "/etc"}), "path"),
        (msgpack.packb({"t": "input", "seq": -1, "action": b""}), "seq"),
        (msgpack.packb({"t": "input", "seq": 1, "action": [0, 1]}), "action"),
        (msgpack.packb({"t": "pace", "speed": float("nan")}), "speed"),
        (msgpack.packb({"t": "start", "changes": {"laser.damage": float("inf")}}), "changes"),
        (msgpack.packb({"t": "what_if", "id": 1, "source": {}, "tick": 0, "runs": 10**6}), "runs"),
        (msgpack.packb({"t": "hello", "version": 1, "name": msgpack.ExtType(5, b"x")}), "cannot be read"),
    ],
    ids=range(16),
)
def test_message_of_another_form_is_refused_in_one_line(body, words):
    with pytest.raises(play.MessageError, match=words) as refused:
        play.parse_client(body)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_every_message_has_a_typescript_interface():
    text = "\n".join(play_types())
    for model in (*play.FROM_CLIENT, *play.FROM_SESSION):
        kind = model.model_fields["t"].default
        assert f't: "{kind}";' in text
