"""The server of ``seqgp serve``: a page of all runs, the report of each, and JSON. Read only, GET and HEAD alone."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import math
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np

from seqgp.base.errors import SeqgpError, one_line
from seqgp.report.catalogue import POINTS, Entry, RunCatalogue
from seqgp.report.page import Link, Page
from seqgp.report.sentences import Sentence

REFRESH = 10  # seconds between two looks of a page at whether runs have grown
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'",
}
RELOAD = """<script>(function () {
  var known = %s;
  setInterval(async function () {
    try {
      var found = await (await fetch(%s)).json();
      if (found.version !== known) location.reload();
    } catch (gone) {}
  }, %d);
})();</script></body>"""


class _Refused(Exception):
    """A request that is not answered as asked."""

    def __init__(self, status: HTTPStatus, text: str):
        super().__init__(text)
        self.status = status


class _Answer(NamedTuple):
    kind: str
    text: str


class Server(ThreadingHTTPServer):
    """Serves the runs of a folder.

    Args:
        folder: the folder.
        host: the address to listen at; other machines reach it only where it is theirs to reach.
        port: the port; 0 for any that is free.
    """

    daemon_threads = True

    def __init__(self, folder: Path, host: str, port: int):
        self.catalogue = RunCatalogue(folder)
        self.local = is_local(host)
        super().__init__((host, port), _Handler)


def is_local(host: str) -> bool:
    """Whether an address is this machine's own, which no other machine can reach."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


class _Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "seqgp", ""
    timeout = 30

    def do_GET(self) -> None:
        try:
            self._check_host()
            answer, status = self._answer(), HTTPStatus.OK
        except _Refused as error:
            answer, status = _json({"error": str(error)}), error.status
        except (SeqgpError, OSError) as error:
            answer, status = _json({"error": one_line(error, 500)}), HTTPStatus.UNPROCESSABLE_ENTITY
        except Exception as error:
            what = f"{type(error).__name__}: {one_line(error, 500)}; this is a fault of seqgp"
            answer, status = _json({"error": what}), HTTPStatus.INTERNAL_SERVER_ERROR
        except KeyboardInterrupt:  # the server stops
            answer, status = _json({"error": "the server stops"}), HTTPStatus.SERVICE_UNAVAILABLE
        body = answer.text.encode("utf-8", "backslashreplace")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are no news."""

    def _check_host(self) -> None:
        """A page elsewhere may give its own name this machine's address, and would then read what is served here."""
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        if self.server.local and not is_local(host):
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "this server answers at localhost only")

    def _answer(self) -> _Answer:
        asked = urlsplit(self.path)
        path, query = unquote(asked.path), parse_qs(asked.query, keep_blank_values=True)
        catalogue, entries = self.server.catalogue, self.server.catalogue.entries()
        if path == "/":
            return _Answer("text/html", _overview(catalogue, entries))
        if path == "/api/version":
            return _json({"version": _all_versions(entries)})
        if path == "/api/summary":
            if "run" in query:
                return _json(catalogue.summary(_named(entries, query["run"][-1])))
            return _json({"runs": [catalogue.summary(entry) for entry in entries.values()]})
        if path == "/api/predict":
            entry = _named(entries, query.pop("run", [""])[-1])
            time = query.pop("time", [None])[-1]
            x = _points(query.pop("x", []))
            return _json(catalogue.predict(entry, x, _covariates(query, len(x)), time))
        if path.startswith("/runs/"):
            entry = _named(entries, path.removeprefix("/runs/"))
            return _Answer(
                "text/html", _alive(catalogue.page(entry), f"/api/summary?run={quote(entry.name)}", entry.version)
            )
        raise _Refused(HTTPStatus.NOT_FOUND, "there is no such page")


def _named(entries: dict[str, Entry], name: str) -> Entry:
    if name not in entries:
        raise _Refused(HTTPStatus.NOT_FOUND, "there is no such run")
    return entries[name]


def _points(texts: list[str]) -> np.ndarray:
    """Inputs from ``x=0.1,0.2&x=0.3,0.4``."""
    if not 1 <= len(texts) <= POINTS:
        raise _Refused(
            HTTPStatus.BAD_REQUEST, f"x: {len(texts)} points given, expected 1 to {POINTS}: x=0.1,0.2&x=0.3,0.4"
        )
    rows = [[_number("x", part) for part in text.split(",")] for text in texts]
    if len({len(row) for row in rows}) > 1:
        raise _Refused(HTTPStatus.BAD_REQUEST, "x: points of different dimensions")
    return np.array(rows)


def _covariates(query: dict[str, list[str]], n: int) -> dict[str, np.ndarray]:
    """Covariates from ``altitude=120&altitude=80``, one value for each point."""
    for name, texts in query.items():
        if len(texts) != n:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"{name}: {len(texts)} values for {n} points; give one for each")
    return {name: np.array([_number(name, text) for text in texts]) for name, texts in query.items()}


def _number(name: str, text: str) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(float(text)):
            return float(text)
    raise _Refused(HTTPStatus.BAD_REQUEST, f"{name}: {text[:40]!r} is not a finite number")


def _overview(catalogue: RunCatalogue, entries: dict[str, Entry]) -> str:
    page = Page(f"Runs in {catalogue.folder.resolve().name}")
    found = [catalogue.summary(entry) for entry in entries.values()]
    damaged = [one for one in found if one["error"]]
    warned = [one for one in found if one.get("warnings")]
    page.facts({"runs": len(found), "with warnings": len(warned), "not readable": len(damaged)})
    if not found:
        page.findings([Sentence(False, "There is no run in this folder yet: `seqgp fit` writes one.")])
    header = ["run", "last update", "steps", "time", "ESS", "log score", "inside 95 %", "seconds", "warnings"]
    if found:
        page.listing(header, [_row(one) for one in found])
    page.text("The log score is that of the forecast of the last step, all its data jointly.", soft=True)
    return _alive(page.html("This page follows the runs as they grow."), "/api/version", _all_versions(entries))


def _row(one: dict[str, Any]) -> list[Any]:
    link = Link(one["title"], f"/runs/{one['run']}")
    if one["error"]:
        return [one["title"], "", "", "", "", "", "", "", one["error"]]
    updated = datetime.datetime.fromtimestamp(one["updated"]).astimezone()
    scores = one["scores"]
    return [
        link,
        updated.strftime("%Y-%m-%d %H:%M:%S"),
        str(one["steps"]),
        one["time"],
        f"{one['ess']:.0f}",
        f"{scores['log_score']:.2f}" if "log_score" in scores else "",
        f"{scores['coverage_95']:.0%}" if "coverage_95" in scores else "",
        f"{one['seconds']:.2g}",
        "; ".join(one["warnings"]),
    ]


def _all_versions(entries: dict[str, Entry]) -> str:
    return " ".join(f"{entry.name}:{entry.version}" for entry in entries.values())


def _alive(text: str, address: str, version: str) -> str:
    """A page that loads itself again when what it shows has changed."""
    script = RELOAD % (_in_script(version), _in_script(address), 1000 * REFRESH)
    head, _, tail = text.rpartition("</body>")
    return f"{head}{script}{tail}"


def _in_script(text: str) -> str:
    return json.dumps(text).replace("<", "\\u003c")


def _json(content: object) -> _Answer:
    return _Answer("application/json", json.dumps(_plain(content), allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
