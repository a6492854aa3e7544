"""A hundred malformed inputs: each ends with exit code 2 and one line that names the culprit, and leaves nothing."""

import gzip
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from cli_tables import CONFIG, rows

GOOD = rows([0, 1])
LINES = GOOD.splitlines()


def table(*lines):
    return "\n".join(lines) + "\n"


def with_row(line, at=3):
    return table(*LINES[:at], line, *LINES[at + 1 :])


TABLES = {  # content of table.csv: what the line must say
    "empty file": ("", "table.csv: the file is empty"),
    "only blank lines": ("\n\n\n", "table.csv: the file is empty"),
    "only a header": (LINES[0] + "\n", "no rows"),
    "one row": (table(LINES[0], LINES[1]), "one row only"),
    "no column t": (GOOD.replace("t,x1", "time,x1"), "no column 't'"),
    "no column x1": (GOOD.replace("x1,x2", "a,x2"), "no column 'x1'"),
    "no column x2": (GOOD.replace("x1,x2", "x1,b"), "no column 'x2'"),
    "no column y": (GOOD.replace(",y,", ",z,"), "no column 'y'"),
    "no column station": (GOOD.replace("station", "name"), "no column 'station'"),
    "column names in capitals": (GOOD.replace("t,x1,x2,y", "T,X1,X2,Y"), "is it 'T'?"),
    "a column's name with a blank": (GOOD.replace("x1,x2", "x1 ,x2"), "is it 'x1 '?"),
    "a slip in a column's name": (GOOD.replace("station", "sation"), "is it 'sation'?"),
    "a missing date": (
        GOOD.replace("\n0,", "\n2024-02-02,", 1).replace("\n0,", "\n,").replace("\n1,", "\n2024-02-03,"),
        "row 3, column 't': the date is missing; every row needs one",
    ),
    "no value at all": (re.sub(r",[\d.]+,S", ",,S", GOOD), "column 'y': every value is missing"),
    "semicolons": (GOOD.replace(",", ";"), "no column 't'"),
    "tabs": (GOOD.replace(",", "\t"), "no column 't'"),
    "the same column twice": (GOOD.replace("x1,x2", "x1,x1"), "table.csv: two columns are called 'x1'"),
    "another column twice": (GOOD.replace("station", "y"), "two columns are called 'y'"),
    "semicolons and decimal commas": (GOOD.replace(",", ";").replace(".", ","), "separated by semicolons"),
    "a blank line before the mistake": (table(*LINES[:2], "", "  ", "0,west,0.7,1,S2"), "row 5, column 'x1'"),
    "blank lines before the header": ("\n\n" + with_row("0,west,0.7,1,S2"), "row 6, column 'x1'"),
    "dates with and without a zone": (
        GOOD.replace("\n0,", "\n2024-02-02T00:00:00+01:00,").replace("\n1,", "\n2024-02-03T00:00:00,"),
        "row 6, column 't': dates with and without a time zone",
    ),
    "a year beyond all": (GOOD.replace("\n0,", "\n2024-02-02,").replace("\n1,", "\n99999-02-03,"), "column 't'"),
    "a number of 500 digits": (with_row(f"0,{'9' * 500},0.7,1,S2"), "row 4, column 'x1': the number is infinite"),
    "data beyond squaring": (with_row("0,0.4,0.7,1e150,S2"), "1e+150"),
    "a location without a name": (
        with_row("0,0.4,0.7,1,"),
        "row 4, column 'station': the name of the location is empty",
    ),
    "a name of blanks": (with_row('0,0.4,0.7,1,"  "'), "row 4, column 'station': the name of the location is empty"),
    "empty rows only": (LINES[0] + "\n,,,,\n,,,,\n", "no rows"),
    "a row with a name alone": (with_row(",,,,S2"), "row 4, column 't': the number is missing"),
    "text in y": (with_row("0,0.4,0.7,much,S2"), "row 4, column 'y': 'much' is not a number"),
    "text in x1": (with_row("0,west,0.7,1,S2"), "row 4, column 'x1': 'west'"),
    "text in x2": (with_row("0,0.4,north,1,S2"), "row 4, column 'x2'"),
    "text in t": (with_row("soon,0.4,0.7,1,S2"), "row 4, column 't'"),
    "a date among numbers": (with_row("2024-01-01,0.4,0.7,1,S2"), "row 4, column 't'"),
    "decimal comma": (with_row('0,"0,4",0.7,1,S2'), "row 4, column 'x1': '0,4'"),
    "NaN in x1": (with_row("0,,0.7,1,S2"), "row 4, column 'x1': the number is missing"),
    "NaN in x2": (with_row("0,0.4,NaN,1,S2"), "row 4, column 'x2': the number is missing"),
    "NaN in t": (with_row(",0.4,0.7,1,S2"), "row 4, column 't': the number is missing"),
    "infinite x1": (with_row("0,inf,0.7,1,S2"), "row 4, column 'x1': the number is infinite"),
    "infinite y": (with_row("0,0.4,0.7,inf,S2"), "row 4, column 'y': the number is infinite"),
    "infinite t": (with_row("inf,0.4,0.7,1,S2"), "row 4, column 't': the number is infinite"),
    "times out of order": (table(LINES[0], *LINES[5:], *LINES[1:5]), "row 6: its time (0) is before"),
    "one time out of order": (with_row("5,0.4,0.7,1,S2"), "row 5: its time (0) is before"),
    "a row twice": (table(*LINES, LINES[-1]), "rows 9 and 10 have the same time and inputs"),
    "same place twice": (with_row("0,0.2,0.37,9,S9"), "rows 3 and 4 have the same time and inputs"),
    "too many fields in a row": (with_row("0,0.4,0.7,1,S2,extra"), "table.csv"),
    "too many fields everywhere": (table(LINES[0], *(line + ",1" for line in LINES[1:])), "table.csv"),
    "dates in another order": (with_row("31/12/2024,0.4,0.7,1,S2"), "row 4, column 't'"),
    "no dates, but words": (GOOD.replace("\n0,", "\nmon,").replace("\n1,", "\ntue,"), "column 't': 'mon'"),
    "dates out of order": (GOOD.replace("\n0,", "\n2024-02-02,").replace("\n1,", "\n2024-02-01,"), "row 6"),
    "an impossible date": (GOOD.replace("\n0,", "\n2024-02-30,").replace("\n1,", "\n2024-03-01,"), "'2024-02-30'"),
    "an unfinished quote": (with_row('0,"0.4,0.7,1,S2'), "table.csv"),
    "HTML, not CSV": ("<!DOCTYPE html><html><body>404</body></html>\n", "no rows"),
    "JSON, not CSV": ('{"t": [0, 1], "y": [1, 2]}\n', "table.csv"),
}


def change(old, new):
    assert old in CONFIG
    return CONFIG.replace(old, new)


SCALE, NOISE = "scale = { low = 0, high = 2 }", "noise = { low = 0, high = 1 }"
NO_NUMBER = "line 9: model.scale: expected a number"

CONFIGS = {  # content of config.toml: what the line must say
    "empty configuration": ("", "data: is missing"),
    "not TOML": ("[data\nfile", "not valid TOML"),
    "a key twice": (CONFIG + "seed = 4\n", "not valid TOML"),
    "no data section": (CONFIG[CONFIG.index("[model]") :], "data: is missing"),
    "no run section": (CONFIG[: CONFIG.index("[run]")], "run: is missing"),
    "no model": (change("[model", "[modell"), "model"),
    "no file": (change('file = "table.csv"\n', ""), "line 1: data.file: is missing"),
    "file is a number": (change('"table.csv"', "3"), "line 2: data.file: "),
    "inputs is text": (change('["x1", "x2"]', '"x1"'), "line 4: data.inputs: "),
    "no inputs": (change('["x1", "x2"]', "[]"), "line 4: data.inputs: "),
    "an input twice": (change('["x1", "x2"]', '["x1", "x1"]'), "line 4: data.inputs: the same column twice"),
    "an unknown key": (change("seed = 3", "sed = 3"), "run.sed: no such key; did you mean 'seed'?"),
    "an unknown section": (CONFIG + "[plots]\na = 1\n", "plots: no such key"),
    "negative seed": (change("seed = 3", "seed = -3"), "line 34: run.seed: "),
    "seed is text": (change("seed = 3", 'seed = "three"'), "line 34: run.seed: "),
    "keep nothing": (change("seed = 3", "keep = 0"), "line 34: run.keep: "),
    "draws is text": (change("draws = 20", 'draws = "many"'), "line 25: sampler.draws: "),
    "draws is a fraction": (change("draws = 20", "draws = 20.5"), "line 25: sampler.draws: "),
    "too few draws": (change("draws = 20", "draws = 1"), "line 25: sampler.draws: "),
    "draws not divisible": (change("chains = 2", "chains = 3"), "not divisible by chains"),
    "tau is zero": (change("draws = 20", "tau = 0"), "line 25: sampler.tau: "),
    "unknown latent": (change('"dense"', '"sparse"'), "line 29: sampler.latent: "),
    "unknown updates": (change('"plain"', '"fancy"'), "line 30: sampler.updates: "),
    "a carry that is gone": (change("chains = 2", 'chains = 2\ncarry = "joint"'), "carry = 'joint' is gone"),
    "unknown kernel": (change('kernel = "SquaredExponential"', 'kernel = "RBF"'), "line 13: model.time.kernel: "),
    "kernel with code": (change('"SquaredExponential"', "\"__import__('os')\""), "model.time.kernel: "),
    "unknown likelihood": (change('"Gaussian"', '"Normal"'), "line 21: model.likelihood.family: "),
    "no noise": (change(NOISE, ""), "Gaussian needs noise"),
    "noise for Poisson": (change('"Gaussian"', '"Poisson"'), "Poisson has no parameter 'noise'"),
    "a bound is missing": (
        change(NOISE, "noise = { low = 0 }"),
        "line 22: model.likelihood.noise",
    ),
    "bounds the wrong way": (change("high = 2 }", "high = -2 }"), "low = 0 is not below high = -2"),
    "a bound is text": (change("high = 2 }", 'high = "2" }'), "line 9: model.scale.high: expected a number"),
    "scale is text": (
        change(SCALE, 'scale = "big"'),
        NO_NUMBER,
    ),
    "scale is true": (
        change(SCALE, "scale = true"),
        NO_NUMBER,
    ),
    "scale is nan": (change(SCALE, "scale = nan"), NO_NUMBER),
    "negative scale": (change(SCALE, "scale = -1.0"), "scale = -1.0 is not positive"),
    "unknown distribution": (
        change(SCALE, 'scale = { distribution = "Gama" }'),
        "line 9: model.scale.distribution: ",
    ),
    "a distribution's wrong parameter": (
        change(SCALE, 'scale = { distribution = "Gamma", shape = 2.0 }'),
        "Gamma has no parameter 'shape'",
    ),
    "a distribution's bad parameter": (
        change(SCALE, 'scale = { distribution = "Gamma", concentration = -2.0 }'),
        "Gamma",
    ),
    "too many lengthscales": (change("high = 3 }, 1.0]", "high = 3 }, 1.0, 2.0]"), "has 3 lengthscales"),
    "a negative lengthscale": (change("high = 3 }, 1.0]", "high = 3 }, -1.0]"), "-1.0 is not positive"),
    "alpha for a wrong kernel": (
        change("high = 3 }, 1.0]", "high = 3 }, 1.0]\nalpha = 1.0"),
        "has no parameter 'alpha'",
    ),
    "draws beyond all": (change("draws = 20", "draws = 10000000000"), "line 25: sampler.draws: "),
    "draws as a float": (change("draws = 20", "draws = 1e10"), "line 25: sampler.draws: "),
    "rubbish as origin": (
        change('value = "y"', 'value = "y"\norigin = "soon"'),
        "line 6: data.origin: 'soon' is not a date",
    ),
    "a seed above 64 bits": (change("seed = 3", "seed = 99999999999999999999"), "line 34: run.seed: "),
    "NUL in the file": (change('"table.csv"', '"table\\u0000.csv"'), "line 2: data.file: not a path"),
    "NUL in the folder": (change('"run"', '"run\\u0000"'), "line 33: run.folder: not a path"),
    "deep nesting": (change(SCALE, "scale = " + "[" * 3000 + "]" * 3000), "config.toml"),
    "a prior of negative scales": (change(SCALE, "scale = { low = -1, high = 2 }"), "scale"),
    "a prior of negative noise": (
        change(NOISE, 'noise = { distribution = "Normal", loc = 0.0, scale = 1.0 }'),
        "noise",
    ),
    "a prior of negative lengthscales": (
        change("lengthscale = { low = 0, high = 3 }", "lengthscale = { low = -2, high = 3 }"),
        "lengthscale",
    ),
    "an unknown unit": (change('value = "y"', 'value = "y"\nunit = "moons"'), "line 6: data.unit: "),
}


@pytest.fixture
def place(tmp_path):
    """A folder whose name has spaces and letters of other alphabets."""
    folder = tmp_path / "ein Ordner, größer 測"
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG)
    (folder / "table.csv").write_text(GOOD)
    return folder


def listing(folder):
    return sorted(str(path) for path in folder.rglob("*"))


def refused(result, phrase):
    code, out, err = result
    assert code == 2, (out, err)
    assert err.count("\n") == 1
    assert err.startswith("seqgp: ")
    assert phrase in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize("name", TABLES)
def test_a_malformed_table(seqgp_, place, name):
    content, phrase = TABLES[name]
    (place / "table.csv").write_text(content)
    before = listing(place)
    result = seqgp_("fit", place / "config.toml")
    refused(result, phrase)
    assert "table.csv" in result[2]
    assert listing(place) == before


@pytest.mark.parametrize("name", CONFIGS)
def test_a_malformed_configuration(seqgp_, place, name):
    content, phrase = CONFIGS[name]
    (place / "config.toml").write_text(content)
    before = listing(place)
    refused(seqgp_("fit", place / "config.toml"), phrase)
    assert listing(place) == before


def _bytes(place):
    (place / "table.csv").write_bytes(bytes(range(256)) * 40)


def _zeros(place):
    (place / "table.csv").write_bytes(b"\0" * 4096)


def _latin(place):
    (place / "table.csv").write_bytes(GOOD.replace("S2", "Zürich").encode("latin-1"))


def _folder(place):
    (place / "table.csv").unlink()
    (place / "table.csv").mkdir()


def _gone(place):
    (place / "table.csv").unlink()


def _excel(place):
    (place / "config.toml").write_text(change("table.csv", "table.xlsx"))
    (place / "table.xlsx").write_bytes(b"PK\x03\x04")


def _utf16(place):
    (place / "table.csv").write_text(GOOD, encoding="utf-16")


def _packed(place):
    (place / "table.csv").write_bytes(gzip.compress(GOOD.encode()))


def _spreadsheet(place):
    (place / "table.csv").write_bytes(b"PK\x03\x04\x14\xff\x00")


def _broken_parquet(place):
    (place / "config.toml").write_text(change("table.csv", "table.parquet"))
    (place / "table.parquet").write_bytes(b"PAR1 and no more")


def _parquet_of_text(place):
    (place / "config.toml").write_text(change("table.csv", "table.parquet"))
    frame = pd.read_csv(place / "table.csv").astype({"y": str})
    frame.loc[2, "y"] = "much"
    frame.to_parquet(place / "table.parquet")


def _booleans(place):
    (place / "config.toml").write_text(change("table.csv", "table.parquet"))
    pd.read_csv(place / "table.csv").assign(y=True).to_parquet(place / "table.parquet")


def _run_is_a_file(place):
    (place / "run").write_text("a file")


def _run_is_a_full_folder(place):
    (place / "run").mkdir()
    (place / "run" / "thesis.txt").write_text("precious")


def _binary_configuration(place):
    (place / "config.toml").write_bytes(b"\xff\xfe\0\1")


def _pipe(place):
    (place / "table.csv").unlink()
    os.mkfifo(place / "table.csv")


def _endless(place):
    (place / "table.csv").unlink()
    (place / "table.csv").symlink_to("/dev/zero")


def _loop(place):
    (place / "table.csv").unlink()
    (place / "table.csv").symlink_to(place / "other.csv")
    (place / "other.csv").symlink_to(place / "table.csv")


def _durations(place):
    (place / "config.toml").write_text(change("table.csv", "table.parquet"))
    frame = pd.read_csv(place / "table.csv")
    frame.assign(t=pd.to_timedelta(frame.t, unit="D")).to_parquet(place / "table.parquet")


@pytest.mark.parametrize(
    "spoil, phrase",
    [
        (_pipe, "table.csv: cannot be read (not a regular file)"),
        (_endless, "table.csv: cannot be read (not a regular file)"),
        (_loop, "table.csv: cannot be read (Too many levels of symbolic links)"),
        (_durations, "column 't' holds timedelta64"),
        (_bytes, "table.csv"),
        (_zeros, "table.csv"),
        (_latin, "not a text file in UTF-8 (byte 75); save it as UTF-8, if it is a CSV"),
        (_utf16, "it is in UTF-16: save it as UTF-8"),
        (_packed, "it is compressed: unpack it first"),
        (_spreadsheet, "it is a spreadsheet or an archive: save it as CSV"),
        (_folder, "a folder, not a table"),
        (_gone, "table.csv: no such file"),
        (_excel, "expected .csv or .parquet"),
        (_broken_parquet, "table.parquet: cannot be read as parquet"),
        (_parquet_of_text, "row 4, column 'y': 'much' is not a number"),
        (_booleans, "column 'y' holds bool"),
        (_run_is_a_file, "run: "),
        (_run_is_a_full_folder, "holds other things"),
        (_binary_configuration, "config.toml: cannot be read as text"),
    ],
)
def test_other_files_for_fit(seqgp_, place, spoil, phrase):
    spoil(place)
    before = listing(place)
    refused(seqgp_("fit", place / "config.toml"), phrase)
    assert listing(place) == before


@pytest.mark.parametrize(
    "command, phrase",
    [
        (["fit", "{place}/config.toml", "--seed", str(2**64)], "--seed"),
        (["predict", "{run}", "{place}/table.csv", "-o", "{place}/out.csv", "--time", "inf"], "not a finite number"),
        (["predict", "{run}", "{place}/table.csv", "-o", "{place}/out.csv", "--time", "nan"], "not a finite number"),
        (["fit"], "Missing argument 'CONFIG.toml'"),
        (["fit", "{place}"], "a folder, not a configuration"),
        (["fit", "{place}/nothing.toml"], "no such file"),
        (["fit", "{place}/config.toml", "--seed", "x"], "--seed"),
        (["fit", "{place}/config.toml", "--sede", "1"], "--sede"),
        (["bake"], "No such command 'bake'"),
        (["new", "{place}/config.toml"], "there already"),
        (["new", "{place}/no/folder/my.toml"], "there is no folder"),
        (["new", "{place}/my.txt"], "ends in .toml"),
        (["summary", "{place}"], "no run here"),
        (["summary", "{place}/table.csv"], "no run here"),
        (["check", "{place}/nothing"], "no run here"),
        (["update", "{run}", "{place}/table.csv"], "t = 0 is not after the last time of the run"),
        (["update", "{run}", "{place}/nothing.csv"], "no such file"),
        (["update", "{place}", "{place}/table.csv"], "no run here"),
        (["watch", "{run}", "{place}/nothing"], "not a folder"),
        (["predict", "{run}", "{place}/config.toml", "-o", "{place}/out.csv"], "expected .csv or .parquet"),
        (["predict", "{run}", "{place}/table.csv", "-o", "{place}/table.csv"], "there already"),
        (["predict", "{run}", "{place}/table.csv", "-o", "{place}/out.txt"], "expected .csv, .parquet or .geoparquet"),
        (["predict", "{run}", "{place}/table.csv", "-o", "{place}/out.csv", "--time", "-1"], "before the last t"),
        (["predict", "{run}", "{place}/table.csv", "-o", "{place}/out.csv", "--time", "noon"], "--time"),
        (["predict", "{run}", "{place}/table.csv"], "Missing option"),
        (["export", "{run}", "{place}/out.xlsx"], "expected .nc, .zarr, .parquet, .geoparquet or .csv"),
        (["export", "{run}", "{place}/no/folder/out.nc"], "there is no folder"),
        (["report", "{run}", "-o", "{place}"], "is a folder"),
        (["report", "{place}", "-o", "{place}/report.html"], "no run here"),
        (["demo", "cooking"], "cooking"),
        (["demo", "-o", "{place}"], "is there already"),
    ],
)
def test_commands_that_cannot_be_done(seqgp_, place, finished, command, phrase):
    before = listing(place)
    filled = [part.format(place=place, run=finished / "run") for part in command]
    refused(seqgp_(*filled), phrase)
    assert listing(place) == before


@pytest.fixture
def sealed(tmp_path):
    """A folder that nobody may write to: not even root, who may write to all others."""
    folder = tmp_path / "sealed"
    folder.mkdir(mode=0o500)
    yield Path("/proc/self") if os.access(folder, os.W_OK) else folder
    folder.chmod(0o700)


@pytest.mark.parametrize("command", ["fit", "new", "predict", "export", "report"])
def test_a_read_only_target(seqgp_, place, finished, sealed, command):
    (place / "config.toml").write_text(change('folder = "run"', f'folder = "{sealed}/run"'))
    given = {
        "fit": [place / "config.toml"],
        "new": [sealed / "my.toml"],
        "predict": [finished / "run", place / "table.csv", "-o", sealed / "out.csv"],
        "export": [finished / "run", sealed / "out.nc"],
        "report": [finished / "run", "-o", sealed / "report.html"],
    }[command]
    before = listing(place)
    refused(seqgp_(command, *given), str(sealed))
    assert listing(place) == before
