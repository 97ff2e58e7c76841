"""A match has the same state hashes natively, in Node and in Chromium; ``tests.web.everywhere`` plays many."""

import pytest

from echelon import champion
from echelon.web import build
from tests.browser.conftest import FLAGS, chromium
from tests.web import everywhere
from tests.web.in_node import compiled_game, needs_node


@pytest.mark.long
@needs_node
@pytest.mark.skipif(chromium() is None, reason="needs Chromium; set CHROMIUM to its path")
@pytest.mark.parametrize("pilots", [("hard", "expert"), (champion.NAME, "expert")], ids="-".join)
def test_node_and_chromium_play_as_natively(tmp_path, pilots):
    from playwright.sync_api import sync_playwright

    cfg = build.game_config("5v5")
    engine = build.web_engine(cfg)
    native = everywhere.write_job(tmp_path, compiled_game(cfg), engine, pilots, maps=[2], battles=1, decisions=60)
    engine.close()
    everywhere.write_bundle(tmp_path)
    assert len(set(native)) == 2
    assert everywhere.play_in_node(tmp_path) == native
    with sync_playwright() as playwright, everywhere.served(tmp_path) as address:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        assert everywhere.play_in_page(browser.new_page(), address) == native
        browser.close()
