"""Export of the viewer and a replay as one HTML page: embedded assets, escaping, errors."""

import base64
import html
import json
import re
from functools import partial

import pytest

from echelon.server.page import single_page
from tests.replay.golden import SMALL

INDEX = """<!doctype html><html><head><title>Echelon</title>
<link rel="icon" href="./icon.svg" type="image/svg+xml" />
<script type="module" crossorigin src="./assets/index-1.js"></script>
<link rel="preload" as="font" type="font/woff2" href="./assets/f-1.woff2" crossorigin></head><body>
<svg id="skeleton"><rect />
</svg><link rel="stylesheet" crossorigin href="./assets/index-1.css"><div id="app"></div></body></html>"""
CODE = 'const a = "</script><!-- é"; start(a);'


@pytest.fixture
def static(tmp_path):
    assets = tmp_path / "static" / "assets"
    assets.mkdir(parents=True)
    (assets.parent / "index.html").write_text(INDEX)
    (assets.parent / "icon.svg").write_text("<svg/>")
    (assets / "index-1.js").write_text(CODE, encoding="utf-8")
    (assets / "index-1.css").write_text("@font-face { src: url(./f-1.woff2) }")
    (assets / "f-1.woff2").write_bytes(b"font")
    (assets / "decode.worker-1.js").write_text("work('é')", encoding="utf-8")
    return assets.parent


def test_single_page_embeds_all_assets(static):
    page = single_page(b"\x89replay", 'a"b.ecr', "Blue & red", static)
    assert not re.search(r'(src|href)="\./', page) and "url(./" not in page
    assert "skeleton" not in page
    assert "<title>Blue &amp; red</title>" in page
    embedded = re.search(r'id="echelon-replay" data-name="a&quot;b.ecr">([^<]*)</script>', page)
    assert embedded and base64.b64decode(embedded[1]) == b"\x89replay"
    (workers,) = re.findall(r'id="echelon-workers">(.*?)</script>', page)
    assert json.loads(workers) == {"decode.worker-1.js": base64.b64encode("work('é')".encode()).decode()}
    assert base64.b64encode(b"font").decode() in page
    assert page.index("echelon-replay") < page.index('<script type="module">')


def test_single_page_escapes_script_end_tags(static):
    page = single_page(b"", "a.ecr", "t", static)
    code = page.split('<script type="module">')[1].split("</script>")[0]
    assert code == CODE.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def test_single_page_reports_missing_viewer_build(tmp_path):
    with pytest.raises(ValueError, match="the viewer is not built"):
        single_page(b"", "a.ecr", "t", tmp_path)


def test_replay_export_writes_replay_and_rejects_bad_targets(tmp_path):
    from echelon_cli.main import run

    out = tmp_path / "out.ecr"
    assert run(["replay", "export", str(SMALL), "-o", str(out)]) == 0
    assert out.stat().st_size > 1000
    for wrong in (str(out), str(tmp_path / "film.avi")):
        assert run(["replay", "export", str(SMALL), "-o", wrong]) != 0
    assert run(["replay", "export", str(SMALL), "-o", str(out), "--force"]) == 0


def test_single_page_names_its_start_and_whether_it_is_within_another(static):
    plain = single_page(b"", "a.ecr", "t", static)
    assert "data-start" not in plain and "data-embed" not in plain
    framed = single_page(b"", "a.ecr", "t", static, start='t=3"', embed=True)
    assert 'data-name="a.ecr" data-start="t=3&quot;" data-embed></script>' in framed
    assert framed.index("<base ") < framed.index("<title>") and "<base " not in plain


def test_show_returns_an_object_that_notebooks_display(static, tmp_path, monkeypatch):
    import echelon

    monkeypatch.setattr("echelon.server.page.single_page", partial(single_page, static=static))
    view = echelon.show(SMALL, height=300, at=2.0)
    assert repr(view).startswith("<ReplayView 'small.ecr': ")
    (page,) = re.findall(r'<iframe srcdoc="([^"]*)" style="width: 100%; height: 300px', view._repr_html_())
    assert 'data-start="t=2.0" data-embed>' in html.unescape(page)
    view.save(tmp_path / "a.html")
    assert "data-embed" not in (tmp_path / "a.html").read_text(encoding="utf-8")
    with echelon.Replay(SMALL) as replay:
        assert echelon.show(replay).title == view.title
