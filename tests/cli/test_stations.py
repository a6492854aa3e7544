"""A named location stays where it is, unless the configuration says that locations move."""

import shutil

import numpy as np
import pytest

import seqgp
from cli_tables import CONFIG, rows
from seqgp.io.configuration import read_configuration
from seqgp.io.configured import stations_of
from seqgp.io.tables import Labelled

MOVED = rows([3]).replace("3,0.2,0.37,", "3,2.0,0.37,")
MOVING = CONFIG.replace('location = "station"', 'location = "station"\nlocations = "moving"')


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy" / "run"


def test_a_location_that_moves_within_a_table_is_refused(seqgp_, tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "table.csv").write_text(rows([0, 1]).replace("1,0.2,0.37,", "1,2.0,0.37,"))
    code, _, err = seqgp_("fit", tmp_path / "config.toml")
    assert code == 2
    assert "table.csv: row 7: location 'S1' is at (x1 = 2.0, x2 = 0.37), but in row 3 at (x1 = 0.2, x2 = 0.37)" in err
    assert 'data.locations = "moving"' in err
    assert not (tmp_path / "run").exists()


def test_a_location_that_moves_between_steps_is_refused(seqgp_, run):
    more = run.parent / "more.csv"
    more.write_text(MOVED)
    code, _, err = seqgp_("update", run, more)
    assert code == 2
    assert "more.csv: row 3: location 'S1' is at (x1 = 2.0, x2 = 0.37), but in the run, at t = 0, at (x1 = 0.2" in err
    assert len(seqgp.Store(run)) == 3


def test_locations_may_move_where_the_configuration_says_so(seqgp_, run):
    (run.parent / "config.toml").write_text(MOVING)
    more = run.parent / "more.csv"
    more.write_text(MOVED)
    assert seqgp_("fit", run.parent / "config.toml")[0] == 0
    assert seqgp_("update", run, more)[0] == 0
    assert len(seqgp.Store(run)) == 4


def test_moving_needs_names(seqgp_, tmp_path):
    (tmp_path / "config.toml").write_text(MOVING.replace('location = "station"\n', ""))
    code, _, err = seqgp_("fit", tmp_path / "config.toml")
    assert code == 2
    assert "data.locations has no effect without data.location" in err


def labelled(t, x, labels):
    return Labelled(t, np.array(x, dtype=float), np.zeros(len(x)), None, labels, np.arange(len(x)))


def test_a_name_may_stand_for_several_points_or_outputs(tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG)
    configuration = read_configuration(tmp_path / "config.toml")
    plain = configuration.build()
    depths = [labelled(t, [[0, 0], [0, 5 + t]], ["buoy", "buoy"]) for t in range(2)]
    stations_of(configuration, plain).check("table.csv", depths)
    space = seqgp.kernels.Coregionalised(2, kernel=seqgp.kernels.Matern32(1.0))
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=space)
    sampler = seqgp.SequentialSampler(seqgp.Model(kernel, seqgp.likelihoods.Gaussian(noise=1.0)))
    outputs = [labelled(0, [[0, 7]], ["a"]), labelled(1, [[1, 7]], ["a"])]
    stations_of(configuration, sampler).check("table.csv", outputs)
    with pytest.raises(seqgp.SeqgpError, match=r"location 'a' is at \(x2 = 8\.0\), but in row 2 at \(x2 = 7\.0\)"):
        stations_of(configuration, sampler).check("table.csv", [*outputs, labelled(2, [[1, 8]], ["a"])])
