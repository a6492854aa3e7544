"""Data are used, or named: nothing that a run is given is passed over in silence."""

import json
import re
import shutil

import pytest

import seqgp
from cli_tables import CONFIG, rows
from seqgp.io.unused_rows import left_out
from seqgp.plots.history import history_of


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy" / "run"


def given(run, text, name="more.csv"):
    path = run.parent / name
    path.write_text(text)
    return path


def test_a_late_time_is_an_error_that_names_its_rows(seqgp_, run):
    late = given(run, rows([1.5, 3]))
    code, _, err = seqgp_("update", run, late, "--skip-seen")
    assert code == 2
    assert "rows 2 to 5: t = 1.5 is before the last stored time" in err
    assert "nothing was added" in err
    assert seqgp.Store(run).times == [0.0, 1.0, 2.0]


def test_other_values_at_a_seen_time_are_an_error_that_names_their_rows(seqgp_, run):
    revised = given(run, rows([2, 3]).replace("2,0.2,0.37,", "2,0.2,0.37,9"))
    code, _, err = seqgp_("update", run, revised, "--skip-seen")
    assert code == 2
    assert "rows 2 to 5: the data at t = 2 are not those that were stored" in err
    assert len(seqgp.Store(run)) == 3


def test_with_late_skip_they_are_named_left_out_and_listed(seqgp_, run):
    revised = given(run, rows([1.5, 2, 3]).replace("2,0.2,0.37,", "2,0.2,0.37,9"))
    code, out, err = seqgp_("update", run, revised, "--late=skip", "--json")
    assert code == 0
    assert err.count("left out: rows") == 2
    assert json.loads(out)["added"] == 1
    assert seqgp.Store(run).times == [0.0, 1.0, 2.0, 3.0]
    (note,) = left_out(run)
    assert "t = 1.5" in note.why
    assert "the data at t = 2 are" in note.why
    code, out, _ = seqgp_("summary", run)
    assert "not used" in out
    assert "more.csv" in out
    assert json.loads(seqgp_("summary", run, "--json")[1])["left_out"][0]["file"] == str(revised)
    code, out, err = seqgp_("update", run, given(run, rows([2]).replace("2,0.2,0.37,", "2,0.2,0.37,9")), "--late=skip")
    assert "left out: rows" in err
    assert "nothing new was added" in out
    assert "same values" not in out  # they were not


def test_the_same_rows_in_another_order_were_seen(seqgp_, run):
    header, *lines = rows([2]).splitlines()
    code, out, _ = seqgp_("update", run, given(run, "\n".join([header, *reversed(lines)]) + "\n"), "--skip-seen")
    assert code == 0
    assert "nothing new was added" in out
    assert len(seqgp.Store(run)) == 3


def test_a_run_of_numbers_takes_no_dates(seqgp_, run):
    code, _, err = seqgp_("update", run, given(run, rows([9]).replace("\n9,", "\n2024-03-02,")))
    assert code == 2
    assert "column 't' holds dates, but the run's times are numbers" in err


def test_a_run_of_dates_keeps_its_origin(seqgp_, tmp_path):
    """A table that begins later, or has another offset, is counted from the run's own first date."""
    (tmp_path / "config.toml").write_text(CONFIG)
    table = tmp_path / "table.csv"
    changed = {"\n0,": "\n2024-03-30T00:00:00+01:00,", "\n1,": "\n2024-03-31T12:00:00+02:00,"}
    text = rows([0, 1])
    for old, new in changed.items():
        text = text.replace(old, new)
    table.write_text(text)
    code, _, err = seqgp_("fit", tmp_path / "config.toml")
    assert code == 0
    assert err.count("converted to UTC") == 1
    times = seqgp.Store(tmp_path / "run").times
    assert times == [0.0, 1.0 + 11 / 24]  # an hour less: summer time began
    table.write_text(rows([1, 2]).replace("\n1,", "\n2024-03-31T10:00:00Z,").replace("\n2,", "\n2024-04-01T22:00:00Z,"))
    assert seqgp_("fit", tmp_path / "config.toml")[0] == 0
    assert seqgp.Store(tmp_path / "run").times == [*times, 2.0 + 23 / 24]
    code, _, err = seqgp_("update", tmp_path / "run", given(tmp_path / "run", rows([9])))
    assert code == 2
    assert "holds numbers, but the run's times are dates" in err


def test_a_grid_with_moving_inputs_is_refused_before_anything_is_stored(seqgp_, tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG.replace('"dense"', '"grid"'))
    (tmp_path / "table.csv").write_text(rows([0, 1]).replace("\n1,0.2,", "\n1,0.3,"))
    code, _, err = seqgp_("fit", tmp_path / "config.toml")
    assert code == 2
    assert "rows 6 to 9 (t = 1): the inputs are not those of the first time" in err
    assert not (tmp_path / "run").exists()


def test_a_configuration_with_a_byte_order_mark_is_read(tmp_path):
    from seqgp.io.configuration import read_configuration

    (tmp_path / "config.toml").write_bytes(b"\xef\xbb\xbf" + CONFIG.encode())
    assert read_configuration(tmp_path / "config.toml").run.seed == 3


def test_a_damaged_run_is_exit_code_3_for_every_command(seqgp_, run, tmp_path):
    path = run / "steps" / "000003.npz"
    path.write_bytes(path.read_bytes()[:-500])
    points, more = given(run, "x1,x2\n0.5,0.5\n", "points.csv"), given(run, rows([3]))
    commands = {
        "fit": [run.parent / "config.toml"],
        "update": [run, more],
        "watch": [run, tmp_path],
        "predict": [run, points, "-o", tmp_path / "out.csv"],
        "summary": [run],
        "export": [run, tmp_path / "out.nc"],
        "check": [run],
        "report": [run, "-o", tmp_path / "report.html"],
    }
    found = {name: seqgp_(name, *arguments)[0] for name, arguments in commands.items()}
    assert found == dict.fromkeys(commands, 3)


def test_a_title_that_is_edited_later_is_taken_up(seqgp_, run):
    """It is no part of the model: wherever a title shows, it is that of the configuration as it stands."""
    config = run.parent / "config.toml"

    def title():
        assert seqgp_("report", run, "-o", run.parent / "page.html", "--force")[0] == 0
        return re.search("<h1>(.*?)</h1>", (run.parent / "page.html").read_text())[1]

    assert seqgp_("fit", config)[0] == 0
    assert title() == run.name
    config.write_text(config.read_text().replace("seed = 3", 'seed = 3\ntitle = "Winds"'))
    assert title() == "Winds"
    (run.parent / "more.csv").write_text(rows([9]))
    assert seqgp_("update", run, run.parent / "more.csv")[0] == 0
    assert seqgp.Store(run).manifest.section("run")["title"] == "Winds"
    config.write_text("half an edi")
    assert title() == "Winds"
    assert seqgp_("check", run)[0] == 0


def test_a_configuration_of_another_run_says_nothing_of_this_one(seqgp_, run):
    config = run.parent / "config.toml"
    config.write_text(config.read_text().replace("seed = 3", 'seed = 3\ntitle = "Winds"'))
    assert seqgp_("fit", config)[0] == 0
    config.write_text(config.read_text().replace("Winds", "Waves").replace('"run"', '"another"'))
    assert history_of(seqgp.Store(run)).title == "Winds"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('unit = "days"', 'unit = "hours"', "data.unit is 'hours', but the run in"),
        ('unit = "days"', 'origin = "2024-01-01"', "data.origin is '2024-01-01', but the run in"),
    ],
)
def test_a_run_counts_its_times_as_it_did(seqgp_, tmp_path, old, new, said):
    """With another unit or origin the same dates would be other times, later than all that was seen."""
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.replace('value = "y"', 'value = "y"\nunit = "days"'))
    (tmp_path / "table.csv").write_text(rows([0, 1]).replace("\n0,", "\n2024-02-01,").replace("\n1,", "\n2024-02-02,"))
    assert seqgp_("fit", config)[0] == 0
    config.write_text(config.read_text().replace(old, new))
    code, _, err = seqgp_("fit", config)
    assert code == 2
    assert said in err
    assert seqgp.Store(tmp_path / "run").times == [0.0, 1.0]


def test_a_run_of_numbers_takes_no_dates_by_fit_either(seqgp_, run):
    table = run.parent / "table.csv"
    table.write_text(rows([0, 9]).replace("\n0,", "\n2024-02-01,").replace("\n9,", "\n2024-02-22,"))
    code, _, err = seqgp_("fit", run.parent / "config.toml")
    assert code == 2
    assert "column 't' holds dates, but the run's times are numbers" in err
