"""``seqgp serve``: pages and JSON of the runs of a folder, nothing else of the disk, and a clean stop."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from urllib.parse import quote

import numpy as np
import pytest

import seqgp
from runs import key, sampler, snapshots
from seqgp.evaluate.past import predict_past
from seqgp.report.catalogue import RunCatalogue
from seqgp.report.server import Server, is_local
from seqgp.samplers.keys import stream

NAME = "north & <b>south</b>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs, one of them below another folder, a damaged one, and a file that is not to be read."""
    folder = tmp_path_factory.mktemp("served")
    runs = folder / "runs"
    runs.mkdir()
    seqgp.run(sampler(), snapshots(3), key(), store=runs / NAME)
    (runs / "deep").mkdir()
    shutil.copytree(runs / NAME, runs / "deep" / "copy")
    (runs / "damaged").mkdir()
    (runs / "damaged" / "manifest.json").write_text("{")
    (folder / "secret.txt").write_text("secret")
    (runs / "secret.txt").write_text("secret")
    os.symlink(folder, runs / "link")
    return runs


@pytest.fixture(scope="module")
def server(folder):
    found = Server(folder, "127.0.0.1", 0)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=120)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def asked(server, path):
    status, text, _ = ask(server, path)
    return status, json.loads(text)


def test_the_page_of_all_runs_names_each_as_text(server):
    status, text, headers = ask(server, "/")
    assert status == 200
    assert "north &amp; &lt;b&gt;south&lt;/b&gt;" in text
    assert "<b>south" not in text
    assert f'href="/runs/{quote(NAME)}"' in text
    assert 'href="/runs/deep/copy"' in text
    assert "manifest.json" in text  # what is wrong with the damaged one
    assert "link" not in text.partition("<table")[2].partition("</table>")[0]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_the_summary_is_that_of_the_last_step(server, folder):
    status, found = asked(server, f"/api/summary?run={quote(NAME)}")
    last = seqgp.Store(folder / NAME).latest()
    assert status == 200
    assert (found["steps"], found["t"], found["ess"]) == (3, last.t, last.info.min_ess)
    assert found["scores"]["log_score"] == last.info.scores["log_score"]
    runs = asked(server, "/api/summary")[1]["runs"]
    assert [run["run"] for run in runs] == ["damaged", "deep/copy", NAME]
    assert [run["error"] is None for run in runs] == [False, True, True]


def test_a_prediction_is_that_of_the_library(server, folder):
    """Against ``seqgp.predict`` with the key of the server, at as many points as it compiles for."""
    points = np.array([[0.1, 0.2], [0.3, 0.9], [0.5, 0.5]])
    query = "&".join(f"x={a},{b}" for a, b in points)
    store = seqgp.Store(folder / NAME)
    status, found = asked(server, f"/api/predict?run={quote(NAME)}&{query}&time=0.5")
    padded = np.concatenate([points, np.repeat(points[-1:], 5, axis=0)])
    assert store.model is not None
    expected = seqgp.predict(stream(0, "predict"), store.model, store.latest().state, padded, 0.5)
    assert status == 200
    assert found["t"] == 0.5
    np.testing.assert_allclose(found["f"]["mean"], np.asarray(expected.f).mean(axis=0)[:3], rtol=1e-10)
    np.testing.assert_allclose(found["y"]["q97.5"], np.quantile(expected.y, 0.975, axis=0)[:3], rtol=1e-10)


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("x=0.1", 422, "1 columns, but the data have 2"),
        ("", 400, "0 points given"),
        ("x=a,b", 400, "'a' is not a finite number"),
        ("x=inf,0", 400, "'inf' is not a finite number"),
        ("x=0,0&x=1", 400, "different dimensions"),
        ("x=0,0&time=-5", 422, "before the last t"),
        ("x=0,0&time=2024-01-01", 422, "is a date, but the times of the run are numbers"),
        ("x=0,0&altitude=3", 422, "altitude: no covariate of this run"),
        ("x=0,0&altitude=3&altitude=4", 400, "2 values for 1 points"),
        ("&".join(["x=0,0"] * 1001), 400, "1001 points given"),
    ],
)
def test_a_mistake_is_named(server, query, status, said):
    found, content = asked(server, f"/api/predict?run={quote(NAME)}&{query}")
    assert found == status
    assert said in content["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../secret.txt",
        "/runs/..%2fsecret.txt",
        "/runs/%2e%2e/secret.txt",
        "/../secret.txt",
        "/secret.txt",
        "/runs/secret.txt",
        "/runs//etc/passwd",
        "/runs/..",
        "/runs/.",
        "/runs/",
        "/runs/deep",
        "/runs/deep/../deep/copy",
        "/runs/link/runs/deep/copy",
        "/runs/deep/copy%00",
        "/runs/deep/copy/manifest.json",
        "/api/summary?run=../runs/deep/copy",
        "/api/summary?run=",
        "/api/predict?run=..%2fsecret.txt&x=0,0",
        "/api",
    ],
)
def test_nothing_but_known_runs_is_reached(server, path):
    status, text, _ = ask(server, path)
    assert status == 404
    assert "secret" not in text


def test_it_only_reads(server):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(server, "/", method)[0] == 501
    status, text, headers = ask(server, "/", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000


def test_a_name_that_was_bound_to_this_machine_is_refused(server):
    """A page elsewhere could otherwise read the runs through the browser of whoever looks at it."""
    assert ask(server, "/", Host="evil.example")[0] == 421
    assert ask(server, "/", Host="localhost:80")[0] == 200
    assert [is_local(host) for host in ("::1", "127.0.0.9", "0.0.0.0", "localhost", "localhost.evil")] == [
        True, True, False, True, False,
    ]  # fmt: skip


def test_a_run_that_grows_is_shown_anew(server, folder):
    before, page = asked(server, "/api/version")[1], ask(server, "/runs/deep/copy")[1]
    assert asked(server, "/api/version")[1] == before
    assert asked(server, "/api/summary?run=deep/copy")[1]["version"] in page
    seqgp.run(sampler(), snapshots(4), store=folder / "deep" / "copy")
    assert asked(server, "/api/version")[1] != before
    found = asked(server, "/api/summary?run=deep/copy")[1]
    assert found["steps"] == 4
    after = ask(server, "/runs/deep/copy")[1]
    assert found["version"] in after
    assert "<b>4</b><span>steps" in after
    assert "<b>3</b><span>steps" in page


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_it(folder, number, code):
    command = [sys.executable, "-m", "seqgp.cli", "serve", str(folder), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        process.send_signal(number)
        out, err = process.communicate(timeout=400)
    assert process.returncode == code
    assert json.loads(out) == {"stopped": True}
    assert "Traceback" not in err


def test_past_times_and_units_of_the_table(tmp_path):
    """Against ``seqgp predict`` with its key: a past time is smoothed, and logs are no numbers to show."""
    model = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(2.0), seqgp.kernels.Matern12(1.0)), seqgp.likelihoods.Gaussian(0.1), 3.0
    )
    x = np.arange(8.0)[:, None]
    data = [seqgp.Snapshot(t, x, 3 + np.sin(x[:, 0] + t)) for t in range(3)]
    sampler = seqgp.OnlineSampler(model, particles=16, draws=50)
    seqgp.run(sampler, data, key(), store=tmp_path / "logs", configuration={"data": {"transform": "log"}})
    catalogue = RunCatalogue(tmp_path)
    (entry,) = catalogue.entries().values()
    state = entry.store.latest().state
    for time, expected in (
        ("0.5", predict_past(stream(0, "predict"), model, state, x, 0.5)),
        ("2.5", seqgp.predict(stream(0, "predict"), model, state, x, 2.5)),
    ):
        found = catalogue.predict(entry, x, {}, time)
        assert found["t"] == float(time)
        np.testing.assert_allclose(found["f"]["mean"], np.exp(expected.f).mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(found["y"]["q50"], np.median(np.exp(expected.y), axis=0), rtol=1e-10)
