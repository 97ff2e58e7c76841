"""A screen that is taken down: messages still come while its widgets go one by one."""

from __future__ import annotations

from echelon_cli.tui.feed.messages import RunChanged
from echelon_cli.tui.panels.header import Header


def test_screen_being_removed_receives_no_messages(watch, living):
    async def scene(user):
        await user.until("running", "amber-jackal")
        assert user.app.active_screen is user.app.screen
        await user.app.screen.query_one(Header).remove()
        assert user.app.active_screen is None
        user.app.on_run_changed(RunChanged(user.app.run_view))

    watch(scene, run=living)
