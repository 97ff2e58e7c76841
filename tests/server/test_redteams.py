"""Pages of red teams: listed and served without scripts, and nothing else of their folders."""

import json

from tests.server.conftest import RUN

SWEEP = "20260101-000001-redteam-calm-fox"


async def test_pages_of_red_teams_are_listed_and_served_without_scripts(home, client):
    async def text_of(path: str) -> tuple[int, str, str]:
        reply = await client.get(path)
        return reply.status, await reply.text(), reply.headers["Content-Security-Policy"]

    assert "echelon redteam RUN" in (await text_of("/redteams"))[1]
    (home / SWEEP).mkdir()
    (home / SWEEP / "spec.json").write_text(json.dumps({"kind": "sweep"}))
    (home / SWEEP / "redteam.html").write_text("<h1>curve</h1><script>1</script>")
    (home / RUN / "redteam.html").write_text("of no red team")
    status, listed, _ = await text_of("/redteams")
    assert status == 200 and f'href="redteams/{SWEEP}"' in listed and RUN not in listed
    status, page, policy = await text_of(f"/redteams/{SWEEP}")
    assert status == 200 and "curve" in page and "default-src 'none'" in policy and "script-src" not in policy
    for name in (RUN, "missing", "..%2Fredteam.html", f"{SWEEP}/spec.json"):
        assert (await text_of(f"/redteams/{name}"))[0] == 404, name
    page_file = home / SWEEP / "redteam.html"
    page_file.unlink()
    page_file.symlink_to(home / SWEEP / "spec.json")
    assert (await text_of(f"/redteams/{SWEEP}"))[0] == 404
