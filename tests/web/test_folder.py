"""The folder of the page: what lies in it, under which names, and what a second page leaves there."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from echelon.web.folder import INDEX, MANIFEST, OFFLINE, PageFolder

PAGE = """<head><script type="module" crossorigin src="./assets/index-A.js"></script></head><body>
<link rel="stylesheet" href="./assets/index-A.css"><svg id="skeleton"></svg></body>"""
VIEWER = {
    "index.html": PAGE,
    "index.html.gz": "twin",
    "icon.svg": "<svg/>",
    "assets/index-A.js": "main()",
    "assets/index-A.css": "a{}",
    "assets/decode.worker-B.js": "work()",
}
MAP = bytes(range(250)) * 20


@pytest.fixture
def static(tmp_path) -> Path:
    folder = tmp_path / "static"
    for name, text in VIEWER.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_page(root: Path, static: Path, data: bytes, **manifest) -> dict[str, int]:
    page = PageFolder(root, static)
    return page.finish({"maps": [page.add("maps/5v5-0.map", data)], **manifest})


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_manifest_names_every_file_and_its_hash(static, tmp_path):
    sizes = write_page(tmp_path / "page", static, MAP)
    found = content(tmp_path / "page")
    manifest = json.loads(found[MANIFEST])
    assert found.keys() == sizes.keys() == manifest["files"].keys() | {INDEX, MANIFEST, OFFLINE}
    assert sizes == {path: len(data) for path, data in found.items()}
    hashes = {path: hashlib.sha256(found[path]).hexdigest() for path in manifest["files"]}
    assert {path: entry["sha256"] for path, entry in manifest["files"].items()} == hashes
    (path,) = manifest["maps"]
    assert gzip.decompress(found[path]) == MAP and len(found[path]) < len(MAP) / 10


def test_index_starts_the_packed_viewer(static, tmp_path):
    write_page(tmp_path / "page", static, MAP, policy="</script><b>")
    found = content(tmp_path / "page")
    index = found[INDEX].decode()
    held = re.search(r'<script type="application/json" id="echelon-game">(.*?)</script>', index, re.DOTALL)
    assert held is not None and json.loads(held[1])["policy"] == "</script><b>"
    viewer = json.loads(held[1])["viewer"]
    assert [gzip.decompress(found[path]).decode() for path in viewer] == ["main()", "work()"]
    assert 'src="./assets' not in index and "DecompressionStream" in index


def test_equal_pages_have_equal_bytes_and_another_takes_the_place_of_the_first(static, tmp_path):
    root = tmp_path / "page"
    write_page(root, static, MAP)
    first = content(root)
    write_page(root, static, MAP)
    assert content(root) == first
    (root / "CNAME").write_text("game.example")
    sizes = write_page(root, static, MAP[::-1])
    assert content(root).keys() == sizes.keys() | {"CNAME"}
    assert len([path for path in sizes if path.startswith("maps/")]) == 1


def test_damaged_manifest_of_an_earlier_page_deletes_nothing_outside(static, tmp_path):
    root = tmp_path / "page"
    root.mkdir()
    (tmp_path / "mine").write_text("kept")
    (root / MANIFEST).write_text(json.dumps({"files": ["../mine", "a/../../mine", "..", 3]}))
    write_page(root, static, MAP)
    (root / MANIFEST).write_text("{")
    write_page(root, static, MAP)
    assert (tmp_path / "mine").read_text() == "kept"


def test_viewer_that_is_not_built_is_named(tmp_path):
    with pytest.raises(ValueError, match="the viewer is not built in .*; install with"):
        PageFolder(tmp_path / "page", tmp_path)
