"""Fleets on the command line: a template over a table of streams or a folder of files."""

import json
import os

import numpy as np
import pytest

import seqgp
from fleet_streams import same_draws
from seqgp.fleets.outcome import read_note
from seqgp.fleets.template import read_fleet
from seqgp.io.configuration import ConfigurationError

CONFIG = """\
[fleet]
folder = "runs"
{which}
seed = 3

[data]
file = "{file}"
time = "t"
inputs = ["x"]
value = "y"

[model.time]
kernel = "Matern12"
lengthscale = {{ low = 0, high = "{{longest}}" }}
[model.space]
kernel = "Matern12"
[model.likelihood]
family = "Gaussian"
noise = 0.5

[sampler]
particles = 16
draws = 8
"""
BY_TABLE = CONFIG.format(which='streams = "streams.csv"', file="quotes/{stream}.csv")
BY_FILES = CONFIG.format(which='files = "quotes/*.csv"', file="{file}").replace('"{longest}"', "3")


def table(seed, times=3, dates=False):
    rng = np.random.default_rng(seed)
    when = [f"2026-01-0{t + 1}" if dates else t for t in range(times)]
    return "t,x,y\n" + "".join(f"{t},{x},{rng.normal():.3f}\n" for t in when for x in (0, 1))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "quotes").mkdir()
    for i, name in enumerate(("dax", "ftse")):
        (tmp_path / "quotes" / f"{name}.csv").write_text(table(i, dates=name == "dax"))
    (tmp_path / "quotes" / "smi.csv").write_text(table(2).replace("2,1", "2,one"))
    (tmp_path / "streams.csv").write_text("stream,longest\ndax,3\nftse,3\nsmi,3\n")
    (tmp_path / "fleet.toml").write_text(BY_TABLE)
    (tmp_path / "files.toml").write_text(BY_FILES)
    return tmp_path


def test_run_status_report_and_go_on(folder, seqgp_, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # which a terminal has, and a pipe or cron has not
    code, said, error = seqgp_("fleet", folder / "fleet.toml", "--json")
    assert (code, error) == (2, "")  # one table is broken
    found = json.loads(said)
    rows = {row["stream"]: row for row in found["streams"]}
    assert found["failed"] == 1
    assert [rows[name]["steps"] for name in ("dax", "ftse", "smi")] == [3, 3, 0]
    assert "smi.csv" in rows["smi"]["error"]
    assert "row 7" in rows["smi"]["error"]
    code, said, _ = seqgp_("fleet", "status", folder / "runs")
    assert code == 0
    assert "2 done" in said
    assert said.index("smi") < said.index("dax")
    assert rows["smi"]["error"] in next(line for line in said.splitlines() if "smi" in line)  # whole, and in one line
    code, said, _ = seqgp_("fleet", "report", folder / "runs", "--reports", 1)
    assert code == 0
    page = (folder / "runs" / "report.html").read_text()
    assert page.count("<polyline") == 2
    assert page.count("<a href") == 1
    assert "http" not in page.replace("http-equiv", "")
    assert next((folder / "runs" / ".reports").iterdir()).stem in ("dax", "ftse")
    (folder / "quotes" / "smi.csv").write_text(table(2))
    (folder / "quotes" / "dax.csv").write_text(table(0, times=4, dates=True))
    code, said, _ = seqgp_("fleet", "run", folder / "fleet.toml")
    assert code == 0
    assert "3 streams, 4 new steps, 0 failed" in said
    code, _, _ = seqgp_("update", folder / "runs" / "dax", folder / "quotes" / "dax.csv", "--skip-seen")
    assert code == 0  # a run like any other
    assert seqgp.Store(folder / "runs" / "dax").manifest.configuration["data"]["origin"].startswith("2026-01-01")
    code, said, _ = seqgp_("fleet", folder / "files.toml", "--json")  # the same streams, from the folder
    assert code == 0
    assert [row["added"] for row in json.loads(said)["streams"]] == [0, 0, 0]


def test_brackets_in_names_and_errors_are_text(folder, seqgp_):
    (folder / "quotes" / "ftse.csv").rename(folder / "quotes" / "[bold]ftse.csv")
    (folder / "quotes" / "smi.csv").write_text("t,x,y\n0,0,a[/b]\n")
    code, said, error = seqgp_("fleet", folder / "files.toml")
    assert (code, error) == (2, "")
    assert "[bold]" in said
    assert seqgp_("fleet", "status", folder / "runs")[0] == 0


def test_workers_and_scheduler(folder, seqgp_):
    """Processes of this machine, and a cluster that is there: the draws of this process, bit for bit."""
    distributed = pytest.importorskip("distributed")
    (folder / "streams.csv").write_text("stream,longest\ndax,3\nftse,3\n")
    config = folder / "fleet.toml"
    settings = {"processes": False, "protocol": "tcp", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **settings) as local:
        for place, there in {
            "here": (),
            "workers": ("--workers", 1),
            "cluster": ("--scheduler", local.scheduler_address),
        }.items():
            config.write_text(BY_TABLE.replace('"runs"', f'"{place}"'))
            code, said, error = seqgp_("fleet", config, *there, "--json")
            assert (code, error) == (0, "")
            assert [row["added"] for row in json.loads(said)["streams"]] == [3, 3]
            workers = {read_note(folder / place, name).worker for name in ("dax", "ftse")}
            assert len(workers) == 1
            assert (f":{os.getpid()}" in workers.pop()) == (place != "workers")
            assert same_draws(folder / "here", folder / place, ("dax", "ftse"))


def test_streams_that_are_configured_alike_share_a_sampler(folder):
    section, runs, streams = read_fleet(folder / "fleet.toml")
    assert [one.name for one in streams] == ["dax", "ftse", "smi"]
    assert (section.seed, runs) == (3, folder.resolve() / "runs")
    assert streams[0].sampler is streams[1].sampler
    assert streams[0].configuration.run.title == "dax"
    (folder / "streams.csv").write_text("stream,longest\ndax,3\nftse,2.5\n")
    _, _, streams = read_fleet(folder / "fleet.toml")
    assert streams[1].configuration.model.time.lengthscale.high == 2.5
    assert streams[0].sampler is not streams[1].sampler


MISTAKES = {
    "no column": ("streams.csv", "stream\ndax\n", r"\{longest\}: streams have no such column; they have: stream"),
    "empty": ("streams.csv", "stream,longest\ndax,\n", r"\{longest\}: the cell of stream 'dax' is empty"),
    "no names": ("streams.csv", "name,longest\ndax,3\n", "no column 'stream'"),
    "twice": ("streams.csv", "stream,longest\ndax,3\ndax,3\n", "two streams are called 'dax'"),
    "a path": ("streams.csv", "stream,longest\n../dax,3\n", "cannot be the name of a folder"),
    "wrong value": (
        "streams.csv",
        "stream,longest\ndax,long\n",
        r"line \d+: model.time.lengthscale.* \(stream 'dax'\)",
    ),
    "run": ("fleet.toml", BY_TABLE + '[run]\nfolder = "x"\n', r"\[run\] is of a single run"),
    "both": ("fleet.toml", BY_TABLE.replace("seed", 'files = "*.csv"\nseed'), "either streams .* or files"),
    "unknown": ("fleet.toml", BY_TABLE.replace("seed", "sede"), r"line 4: fleet.sede: no such key"),
    "a title": (
        "fleet.toml",
        BY_TABLE.replace("seed", 'title = "{city}"\nseed'),
        r"\{city\}: streams have no such column; they have: stream, longest",
    ),
    "no files": ("fleet.toml", BY_FILES.replace("quotes/", "nowhere/"), r"no file \(.csv.* matches"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(folder, name):
    file, text, said = MISTAKES[name]
    (folder / file).write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_fleet(folder / "fleet.toml")


def test_mistakes_of_the_command(folder, seqgp_):
    code, _, error = seqgp_("fleet", "status", folder)
    assert (code, "there is no fleet here" in error) == (2, True)
    code, _, error = seqgp_("fleet", folder / "fleet.toml", "--scheduler", "tcp://127.0.0.1:1", "--workers", 2)
    assert (code, "choose one" in error) == (2, True)
    code, _, error = seqgp_("fleet", folder / "fleet.toml", "--scheduler", "nonsense://x")
    assert (code, "cannot be reached" in error) == (2, True)
    code, said, _ = seqgp_("fleet", "--help")
    assert (code, "status" in said) == (0, True)


def test_streams_are_called_as_they_stand_in_the_table(folder):
    (folder / "streams.csv").write_text("stream,longest\n007,3\nNA,3\n")
    _, _, streams = read_fleet(folder / "fleet.toml")
    assert [stream.name for stream in streams] == ["007", "NA"]
    assert streams[0].configuration.data.file.endswith("007.csv")


def test_endings_in_capitals_are_endings(folder):
    """Of files that other systems wrote; what is no table is no stream."""
    for name in ("dax", "ftse"):
        (folder / "quotes" / f"{name}.csv").rename(folder / "quotes" / f"{name}.CSV")
    (folder / "quotes" / "notes.CSV.txt").write_text("no table")
    (folder / "files.toml").write_text(BY_FILES.replace("*.csv", "*.CSV*"))
    _, _, streams = read_fleet(folder / "files.toml")
    assert [stream.name for stream in streams] == ["dax", "ftse"]
    (dax, *_), told = streams[0].opened()
    assert (dax.t, told["data"]["origin"]) == (0.0, "2026-01-01T00:00:00")
