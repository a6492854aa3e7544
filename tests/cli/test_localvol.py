"""From quotes to surfaces, interrupted and resumed."""

import json

import pandas as pd
import pytest

from seqgp.apps.localvol import Laplace, LocalVolatility, LocalVolFit, figures, from_json, simulated_quotes
from seqgp.cli.localvol import _Session, _Table
from seqgp.cli.localvol_results import FIGURES, day_lines
from seqgp.io.frames import read_numbered


class Quick(LocalVolFit):
    """A fit of few sweeps: how well it mixes is not the question here."""

    def __init__(self, model, draws=40, seed=0, store=None, sampler=None):
        if sampler is not None:
            super().__init__(model, seed=seed, sampler=sampler)
            return
        super().__init__(model, draws, seed, store, particles=16)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("seqgp.apps.localvol.LocalVolFit", Quick)


SETTINGS = ("--knots", "3", "5", "--draws", "40", "--seed", "3", "--json")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("quotes") / "quotes.csv"
    simulated_quotes(2, 7, (60, 150, 330)).to_csv(path, index=False)
    return path


def test_a_fit_that_was_interrupted_goes_on_with_the_same_draws(seqgp_, table, tmp_path, monkeypatch):
    code, out, _ = seqgp_("localvol", table, "-o", tmp_path / "straight", *SETTINGS)
    assert code == 0
    straight = json.loads(out)["days"]
    update = LocalVolFit.update

    def stopped(fit, day):
        if fit.days:
            raise KeyboardInterrupt
        return update(fit, day)

    again = tmp_path / "again"
    with monkeypatch.context() as patch:
        patch.setattr(Quick, "update", stopped)
        assert seqgp_("localvol", table, "-o", again, *SETTINGS)[0] != 0
    code, out, _ = seqgp_("localvol", table, "-o", again, *SETTINGS)
    assert code == 0
    timed = {"seconds"}
    assert [{k: v for k, v in row.items() if k not in timed} for row in json.loads(out)["days"]] == [
        {k: v for k, v in row.items() if k not in timed} for row in straight
    ]
    for name in ("parameters", "surface", "smiles", "quotes", "expirations", "excluded"):
        one, other = (pd.read_csv(folder / f"{name}.csv") for folder in (tmp_path / "straight", again))
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    code, out, err = seqgp_("localvol", table, "-o", again, "--knots", "4", "5", "--draws", "40", "--seed", "3")
    assert code != 0
    assert "the run has --knots 3 5, not 4 5" in err + out
    code, out, err = seqgp_("localvol", table, "-o", again, "--surface", "sticky", *SETTINGS)
    assert code != 0
    assert "the run has --surface separable, not sticky" in err + out
    added = tmp_path / "added.csv"
    simulated_quotes(3, 7, (60, 150, 330)).to_csv(added, index=False)
    code, out, _ = seqgp_("localvol", added, "-o", again, *SETTINGS)
    assert code == 0
    assert [row["date"] for row in json.loads(out)["days"]][:2] == [row["date"] for row in straight]
    assert len(json.loads(out)["days"]) == 3


def test_a_folder_with_other_things_is_left_alone(seqgp_, table, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    code, out, err = seqgp_("localvol", table, "-o", tmp_path, *SETTINGS)
    assert code != 0
    assert "holds no run to go on with; choose another folder with -o" in err + out


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda text: text.replace("strike", "K"), (), "'expiration', 'K', 'option_type'"),
        (lambda text: text.replace("strike", "K"), (), "--column OURS=THEIRS"),
        (lambda text: text.replace(",", ";"), (), "missing columns"),
        (lambda text: text.encode("utf-16"), (), "it is in UTF-16: save it as UTF-8"),
        (lambda text: "", (), "the file is empty"),
        (lambda text: "\n" + text.replace(",P,", ",X,", 1), (), "'X' is neither call nor put: line "),
        (lambda text: text, ("--knots", "-1", "9"), "-1 and 9 knots, expected at least two each"),
        (lambda text: text, ("--min-maturity", "50"), "quotes can be used (the first: maturity not above 50)"),
        (lambda text: text, ("--where", "coin=BTC"), "where: there is no column 'coin'"),
        (lambda text: text, ("--where", "coin"), "--where coin: expected COLUMN=VALUE, currency=BTC, say"),
        (lambda text: text, ("--forward", "x"), "--forward x: expected a number, or DATE=NUMBER"),
        (lambda text: text, ("--discount", "1", "--discount", "2024-03-02=1"), "--discount: give one number for all"),
        (lambda text: text, ("--forward", "9000"), "a forward of 9000 with strikes from"),
        (lambda text: text, ("--surface", "flat"), "surface = 'flat': expected 'separable' or 'sticky'"),
        (lambda text: text, ("--sampler", "best"), "--sampler best: expected one of online, laplace"),
    ],
)
def test_what_cannot_be_used_is_named(seqgp_, table, tmp_path, change, options, said):
    content = change(table.read_text())
    (tmp_path / "quotes.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = seqgp_("localvol", tmp_path / "quotes.csv", "-o", tmp_path / "out", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (tmp_path / "out").exists()


def test_quotes_are_read_as_other_tables(table, tmp_path):
    """Rows of separators are left out, and lines are counted as in the file."""
    header, *rows = table.read_text().splitlines()
    (tmp_path / "quotes.csv").write_text("\n".join([header, rows[0], "", ",,,,,", *rows[1:], ",,,,,"]))
    frame = read_numbered(tmp_path / "quotes.csv")
    assert frame.index[:3].tolist() == [2, 5, 6]
    pd.testing.assert_frame_equal(frame.reset_index(drop=True), pd.read_csv(table))
    frame.to_parquet(tmp_path / "quotes.parquet", index=False)
    pd.testing.assert_frame_equal(read_numbered(tmp_path / "quotes.parquet").reset_index(drop=True), pd.read_csv(table))


def test_the_mode_is_fast_and_is_scored_on_what_was_held_out(seqgp_, table, tmp_path, monkeypatch):
    drawn, smiles = [], figures.smiles
    monkeypatch.setattr(figures, "smiles", lambda fit, held_out=None: drawn.append(held_out) or smiles(fit, held_out))
    options = ("--knots", "3", "5", "--draws", "64", "--fast", "--holdout", "0.2", "--quantlib", tmp_path / "ql.json")
    code, out, err = seqgp_("localvol", table, "-o", tmp_path / "out", *options)
    assert code == 0, err
    assert "held out" in out
    kept = json.loads((tmp_path / "ql.json").read_text())
    assert len(kept["volatility"]) == len(kept["strikes"])
    surface = from_json((tmp_path / "ql.json").read_text())
    assert surface.localVol(kept["maturities"][0], kept["strikes"][0]) == pytest.approx(kept["volatility"][0][0])
    scored = pd.read_csv(tmp_path / "out" / "held_out.csv")
    learnt = pd.read_csv(tmp_path / "out" / "quotes.csv")
    assert set(drawn[-1].table.index) == set(scored["line"])
    assert not set(scored["line"]) & set(learnt["line"])
    assert not (tmp_path / "out" / "run").exists()
    for name in FIGURES:
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 1000


def test_warnings_are_printed_below_their_day():
    row = {"date": "2024-01-02", "quotes": 7, "rmse_bp": 3.0, "forecast_bp": None, "flagged": [], "min_ess": 12.0}
    lines = day_lines(row | {"warnings": ["least ESS 12 of 100"]})
    assert lines == ["2024-01-02: 7 quotes, 3.0 bp, ESS 12", "  warning: least ESS 12 of 100"]


def test_a_table_that_grows_is_taken_in_again(table, tmp_path):
    """What `--watch` does when the file has changed: the new times alone, in the same process."""
    path = tmp_path / "quotes.csv"
    simulated_quotes(1, 7, (60, 150, 330)).to_csv(path, index=False)
    watched = _Table(path, {"min_maturity": 0.05}, 2.5, 0.0, 0)
    model = LocalVolatility.for_quotes(watched.read()[pd.Timestamp("2024-01-02")].learnt, (3, 5))
    fit = LocalVolFit(model, sampler=Laplace(model.model, 64))
    session = _Session(fit, watched, tmp_path / "out", True, None)
    session.take(watched.read())
    assert not watched.changed()
    path.write_bytes(table.read_bytes())
    assert watched.changed()
    session.again()
    assert [row["date"] for row in session.rows] == ["2024-01-02", "2024-01-03"]
    path.write_text("nothing")
    session.again()
    assert len(session.rows) == 2
