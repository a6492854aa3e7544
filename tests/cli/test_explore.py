"""``seqgp explore`` and ``seqgp new --table``: from a table to a page, and to a configuration that can be fitted."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from seqgp.io.configuration import read_configuration
from seqgp.io.errors import TableError
from seqgp.io.guess import guess_columns


@pytest.fixture
def table(tmp_path):
    """Weather of lengthscale 4 days and 30 km around 15, at eight stations; a constant of each station is no value."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, (8, 2))
    distance = np.linalg.norm(x[:, None] - x, axis=-1)
    root = np.linalg.cholesky(9.0 * np.exp(-distance / 30))
    f, rows = root @ rng.normal(size=8), []
    for day in range(60):
        f = np.exp(-1 / 4) * f + np.sqrt(1 - np.exp(-1 / 2)) * root @ rng.normal(size=8)
        date = (pd.Timestamp("2024-03-01") + pd.Timedelta(days=day)).strftime("%Y-%m-%d")
        y = 15 + f + 0.5 * rng.normal(size=8)
        rows += [
            {"date": date, "station": f"S{k}", "x_km": x[k, 0], "y_km": x[k, 1], "height": 10.0 * k, "pm10": y[k]}
            for k in range(8)
        ]
    path = tmp_path / "pm10.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_new_writes_priors_for_a_table_and_fit_takes_them(seqgp_, table):
    config = table.with_name("my.toml")
    pd.read_csv(table).rename(columns={"height": "class"}).to_csv(table, index=False)
    code, _, err = seqgp_("new", config, "--table", table)
    assert code == 2
    assert "'class', 'pm10' may all be the value; say so with --value" in err
    code, out, err = seqgp_("new", config, "--table", table, "--value", "pm10")
    assert code == 0, err
    assert "8 stations at 60 times" in out
    configuration = read_configuration(config)
    data = configuration.data
    assert (data.time, data.inputs, data.value, data.location) == ("date", ("x_km", "y_km"), "pm10", "station")
    priors = configuration.model
    assert np.exp(priors.time.lengthscale.__pydantic_extra__["loc"]) == pytest.approx(4.0, rel=0.8)
    assert priors.mean.__pydantic_extra__["loc"] == pytest.approx(15.0, abs=2.0)
    text = config.read_text().replace("draws = 1000 ", "draws = 40\nparticles = 16 ")
    config.write_text(text)
    small = pd.read_csv(table).head(24)
    small.to_csv(table, index=False)
    assert seqgp_("fit", config)[0] == 0


def test_a_height_is_a_covariate_whose_trend_is_removed(seqgp_, table):
    """The lengthscales are those of the weather alone, and the weight has a prior around its slope."""
    frame = pd.read_csv(table)
    frame.assign(height=100 * frame.height, pm10=frame.pm10 - 0.02 * 100 * frame.height).to_csv(table, index=False)
    config = table.with_name("my.toml")
    code, out, err = seqgp_("new", config, "--table", table)
    assert code == 0, err
    assert "height: -0.0" in out
    configuration = read_configuration(config)
    assert configuration.data.covariates == {"height": "height"}
    mean = configuration.model.mean
    weight = mean.weights[0].__pydantic_extra__
    assert weight["loc"] == pytest.approx(-0.02, abs=0.002)
    assert weight["scale"] >= 0.02
    assert mean.intercept.__pydantic_extra__["loc"] == pytest.approx(15.0, abs=4.0)
    assert np.exp(configuration.model.time.lengthscale.__pydantic_extra__["loc"]) == pytest.approx(4.0, rel=0.8)
    assert np.exp(configuration.model.scale.__pydantic_extra__["loc"]) == pytest.approx(3.0, rel=0.5)
    config.write_text(config.read_text().replace("draws = 1000 ", "draws = 40\nparticles = 16 "))
    frame.head(24).to_csv(table, index=False)
    assert seqgp_("fit", config)[0] == 0


def test_explore_needs_the_section_data_alone(seqgp_, table, tmp_path):
    config = tmp_path / "data.toml"
    config.write_text(
        f'[data]\nfile = "{table.name}"\ntime = "date"\ninputs = ["x_km", "y_km"]\n'
        'value = "pm10"\nlocation = "station"\n'
    )
    page = tmp_path / "page.html"
    code, out, err = seqgp_("explore", config, "-o", page, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["suggested"]["kernel"] == "Separable"
    assert said["period"] is None
    assert said["suggested"]["priors"]["mean"][0] == "Normal"
    assert "S7" in page.read_text()
    assert seqgp_("explore", config, "-o", page)[0] == 2  # it is there
    assert json.loads(seqgp_("explore", config, "-o", page, "--force", "--period", "7", "--json")[1])["period"] == 7
    config.write_text("[model]\nscale = 1\n")
    assert "it has no section [data]" in seqgp_("explore", config)[2]


def test_options_of_a_table_need_a_table(seqgp_, tmp_path):
    code, _, err = seqgp_("new", tmp_path / "my.toml", "--value", "pm10")
    assert code == 2
    assert "give --table too" in err


def written(tmp_path, **columns):
    path = tmp_path / "table.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def test_columns_are_guessed_where_there_is_one_answer(tmp_path):
    numbers = np.arange(6.0)
    path = written(tmp_path, t=numbers, lon=numbers, lat=numbers, y=numbers)
    assert guess_columns(path)[:4] == ("t", ("lon", "lat"), "y", None)
    assert guess_columns(path, inputs=("lat",), value="y").inputs == ("lat",)
    path = written(tmp_path, day=numbers // 2, site=list("ababab"), east_of=[1, 2] * 3, level=numbers)
    assert guess_columns(path)[:4] == ("day", ("east_of",), "level", "site")
    path = written(tmp_path, a=numbers, b=numbers, c=numbers)
    with pytest.raises(TableError, match="no column is plainly the time; say so with --time"):
        guess_columns(path)
    with pytest.raises(TableError, match="there is no column 'nope'"):
        guess_columns(path, time="nope")


def test_names_with_units_and_the_long_format(tmp_path):
    numbers, stations = np.arange(6.0), list("ababab")
    path = written(tmp_path, date=numbers, station=stations, east_km=[1, 2] * 3, north_km=[2, 3] * 3, degrees=numbers)
    assert guess_columns(path)[:4] == ("date", ("east_km", "north_km"), "degrees", "station")
    path = written(tmp_path, unique_id=stations, ds=numbers, y=numbers, lon=[1, 2] * 3, lat=[5, 6] * 3)
    assert guess_columns(path)[:4] == ("ds", ("lon", "lat"), "y", "unique_id")
    path = written(tmp_path, unique_id=stations, ds=numbers, y=numbers, x=[1, 2] * 3)
    assert guess_columns(path)[:3] == ("ds", ("x",), "y")
    path = written(tmp_path, unique_id=stations, ds=numbers, y=numbers)
    with pytest.raises(TableError, match=r"no column is plainly the inputs.*must be joined to this one"):
        guess_columns(path)


def test_a_height_that_changes_or_is_missing_is_no_covariate(tmp_path):
    numbers, stations = np.arange(6.0), list("ababab")
    of_each = {"t": numbers, "station": stations, "x": [1, 2] * 3, "y": numbers}
    path = written(tmp_path, **of_each, **{"Altitude (m)": [30, 50] * 3})
    assert guess_columns(path, value="y").covariates == {"altitude": "Altitude (m)"}
    for heights in (numbers, [30, None] * 3, [30, 30] * 3):
        path = written(tmp_path, **of_each, altitude_m=heights)
        assert guess_columns(path, inputs=("x",), value="y").covariates == {}


def test_skewed_values_are_said_and_explored_as_logarithms(seqgp_, tmp_path):
    """The priors of the transformed values are those of a table that has the logarithms."""
    rng = np.random.default_rng(3)
    t, i = (grid.ravel() for grid in np.meshgrid(np.arange(40), np.arange(8), indexing="ij"))
    logs = 3 + 0.6 * rng.standard_normal(len(t))
    table = pd.DataFrame({"unique_id": i, "ds": t, "y": np.exp(logs), "x": rng.random(8)[i]})
    table.to_csv(tmp_path / "skewed.csv", index=False)
    table.assign(y=np.log(table.y)).to_csv(tmp_path / "logs.csv", index=False)
    code, out, err = seqgp_("new", tmp_path / "a.toml", "--table", tmp_path / "skewed.csv")
    assert code == 0, err
    assert "positive and skewed" in out
    code, out, err = seqgp_("new", tmp_path / "b.toml", "--table", tmp_path / "skewed.csv", "--transform", "log")
    assert code == 0, err
    assert "positive and skewed" not in out
    assert "positive and skewed" not in seqgp_("new", tmp_path / "c.toml", "--table", tmp_path / "logs.csv")[1]
    b, c = (tomllib.loads((tmp_path / name).read_text()) for name in ("b.toml", "c.toml"))
    assert b["data"]["transform"] == "log"
    assert b["model"] == c["model"]
    code, _, err = seqgp_("new", tmp_path / "d.toml", "--transform", "log")
    assert code == 2
    assert "give --table too" in err
