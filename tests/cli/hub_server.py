"""A stand-in for the Hugging Face Hub: repositories in memory, and the few requests that push and pull make."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(ThreadingHTTPServer):
    """Serves on a free port of this machine while it is a context; ``repos`` has the files by repository."""

    daemon_threads = True

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.tokens: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> HubServer:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.tokens.append(self.headers.get("Authorization", ""))
        path = urlsplit(self.path).path
        if path == "/api/repos/create":
            asked = json.loads(body)
            repo = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.server.repos.setdefault(repo, {})
            return self._json({"url": f"{self.server.url}/{repo}", "id": repo, "name": repo})
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if "/preupload/" in path:
            files = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in json.loads(body)["files"]
            ]
            return self._json({"files": files})
        if "/commit/" in path:
            repo = path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in body.splitlines():
                row = json.loads(line)
                if row["key"] == "file":
                    self.server.repos[repo][row["value"]["path"]] = base64.b64decode(row["value"]["content"])
            return self._json({"commitUrl": f"{self.server.url}/{repo}/commit/{COMMIT}", "commitOid": COMMIT})
        return self._json({"error": f"unexpected POST {path}"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/api/models/"):
            repo = "/".join(path.split("/")[3:5])
            if repo not in self.server.repos:
                return self._json({"error": "Repository not found"}, 401, {"X-Error-Code": "RepoNotFound"})
            files = self.server.repos[repo]
            if "/tree/" in path:
                found = [{"type": "file", "path": n, "size": len(d), "oid": _oid(d)} for n, d in files.items()]
                return self._json(found)
            return self._json(
                {"id": repo, "modelId": repo, "sha": COMMIT, "private": False, "downloads": 0, "likes": 0, "tags": [],
                 "siblings": [{"rfilename": name} for name in files]}
            )  # fmt: skip
        repo, found, rest = path.strip("/").partition("/resolve/")
        name = rest.partition("/")[2]
        data = self.server.repos.get(repo, {}).get(name)
        if not found or data is None:
            return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        return self._send(data, 200, {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": COMMIT})

    def _json(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
