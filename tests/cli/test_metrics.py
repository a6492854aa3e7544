"""``[run] metrics``: a text file for Prometheus, whole at any time, with the figures of the last step."""

import math
import re
import time

import pytest

import seqgp
from cli_tables import CONFIG, rows
from seqgp.base.info import ChainInfo, OnlineInfo
from seqgp.io.metrics import MetricsFile, exposition, metrics_of

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"')
SCORES = {"log_score": -3.5, "crps": 0.25, "coverage_50": 0.5, "coverage_95": 1.0}


def parsed(text):
    """Samples by name and labels; raises unless every one follows the HELP and TYPE of its name, as the format asks."""
    assert text.endswith("\n")
    found, described = {}, None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            described = line.split(" ", 3)[2]
            assert line.split(" ", 3)[3]
            assert next(lines) == f"# TYPE {described} gauge"
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        name, labels, value = sample.groups()
        assert name == described
        found[name, *sorted(LABEL.findall(labels))] = float(value)
    return found


def online(scores=SCORES, **given):
    values = {"t": 2.0, "step": 3, "seconds": 0.5, "compile_seconds": 0.1, "missing": 1, "settings": {}}
    values |= {"warnings": ("drift: far off",), "ess": 87.5, "log_evidence": -20.0, "log_evidence_se": 0.1}
    return OnlineInfo(**(values | given), scores=scores)


def test_the_figures_are_those_of_the_step():
    found = parsed(exposition(metrics_of(online(), {"origin": "2024-05-01", "unit": "days"}, 1e9), "wind"))
    run = ("run", "wind")
    assert found == {
        ("seqgp_last_success_timestamp_seconds", run): 1e9,
        ("seqgp_steps", run): 3,
        ("seqgp_time", run): 2.0,
        ("seqgp_data_timestamp_seconds", run): 1714694400,  # date -u -d 2024-05-03 +%s
        ("seqgp_step_seconds", run): 0.5,
        ("seqgp_step_compile_seconds", run): 0.1,
        ("seqgp_ess", run): 87.5,
        ("seqgp_log_evidence", run): -20.0,
        ("seqgp_log_score", run): -3.5,
        ("seqgp_crps", run): 0.25,
        ("seqgp_coverage", ("level", "0.5"), run): 0.5,
        ("seqgp_coverage", ("level", "0.95"), run): 1.0,
        ("seqgp_missing_values", run): 1,
        ("seqgp_warnings", run): 1,
    }


def test_what_a_step_does_not_have_is_left_out():
    chains = ChainInfo(0.0, 1, 1.0, 0.0, 0, {}, (), {}, {}, {"noise": 40.0, "scale": 30.0}, {}, 4, 0.0)
    found = {name for name, *_ in parsed(exposition(metrics_of(chains, {}, 0.0), "a"))}
    assert "seqgp_ess" in found
    assert not found & {"seqgp_log_evidence", "seqgp_log_score", "seqgp_coverage", "seqgp_data_timestamp_seconds"}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "ä", "a\\n"])
def test_any_name_of_a_run_can_be_a_label(name):
    text = exposition(metrics_of(online(), {}, 0.0), name)
    (label,) = {dict(labels)["run"] for _, *labels in parsed(text)}
    assert re.sub(r'\\([\\"n])', lambda m: {"n": "\n"}.get(m[1], m[1]), label) == name


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf")])
def test_numbers_that_are_not_finite_are_spelled_as_prometheus_does(value, text):
    assert f'seqgp_ess{{run="a"}} {text}\n' in exposition(metrics_of(online(ess=value), {}, 0.0), "a")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG + 'metrics = "out/run.prom"\n')
    (tmp_path / "table.csv").write_text(rows([0, 1, 2]))
    (tmp_path / "more.csv").write_text(rows([3]))
    return tmp_path


def test_fit_and_update_write_it(seqgp_, folder, monkeypatch):
    code, _, said = seqgp_("fit", folder / "config.toml")
    assert code == 2
    assert "run.metrics" in said
    assert f"there is no folder {folder / 'out'}" in said
    assert not (folder / "run").exists()
    (folder / "out").mkdir()
    begun = time.time()
    assert seqgp_("fit", folder / "config.toml")[0] == 0
    file, run = folder / "out" / "run.prom", ("run", "run")
    info, found = seqgp.Store(folder / "run").latest().info, parsed(file.read_text())
    assert found["seqgp_steps", run] == 3
    assert found["seqgp_ess", run] == info.min_ess
    assert found["seqgp_log_score", run] == info.scores["log_score"]
    assert begun <= found["seqgp_last_success_timestamp_seconds", run] <= time.time()
    monkeypatch.chdir(folder / "out")  # the path is the configuration's, wherever the command is given
    assert seqgp_("update", folder / "run", folder / "more.csv")[0] == 0
    after = parsed(file.read_text())
    assert after["seqgp_steps", run] == 4
    assert seqgp_("update", folder / "run", folder / "more.csv", "--skip-seen")[0] == 0
    again, what = parsed(file.read_text()), "seqgp_last_success_timestamp_seconds"
    assert again["seqgp_steps", run] == 4
    assert again[what, run] > after[what, run]
    assert [path.name for path in file.parent.iterdir()] == ["run.prom"]
    file.unlink()
    file.mkdir()
    code, _, said = seqgp_("update", folder / "run", folder / "more.csv", "--skip-seen")
    assert code == 2
    assert f"{file}: is a folder" in said


def test_a_name_that_no_collector_reads_is_refused_with_its_line(seqgp_, folder):
    (folder / "config.toml").write_text(CONFIG + 'metrics = "run.txt"\n')
    code, _, said = seqgp_("fit", folder / "config.toml")
    assert code == 2
    assert "run.metrics: the name of a file for Prometheus ends in .prom (given: 'run.txt')" in said


def test_a_file_that_cannot_be_written_does_not_stop_the_run(tmp_path):
    write = MetricsFile(tmp_path / "gone" / "run.prom", "run", {})
    with pytest.warns(UserWarning, match=r"run\.metrics: .*gone.*the run goes on without"):
        write(None, online())
