"""The page of the paper: its verdicts follow from the numbers, and it says what has not been run."""

import json

import numpy as np
from experiments.paper import full_page, page, regression_page
from experiments.paper.parts import PARTS, parse, save
from experiments.paper.sizes import PAPER, QUICK


def row(t, **values):
    start = {"R": 1.0, "bias": 0.1, "exact sd": 0.2 / t, "sd": 0.2, "bias noise": 0.0, "seconds": 1.0}
    start |= {"full mse": 1.0, "full exact mse": 2.0, "full cumulative seconds": 3.0, "full seconds per sweep": 0.1}
    return {"t": t} | start | values


def data_set(seed, inside=1.0, gain=1.0):
    rows = [{"inside": 0.85, "outside": 8, "seconds": 1.0}, {"inside": inside, "outside": 9, "seconds": 2.0}]
    half = {"sequential": {"mean": gain, "log_score": 0.0}, "without the past": {"mean": 0.0, "log_score": 0.0}}
    last = {"mean": [0.2, 0.03], "space.lengthscale": [[1.0, 2.0], [0.1, 0.2]]}
    truth = {"mean": 0.5, "space.lengthscale": [1.0, 2.0]}
    return {"seed": seed, "rows": rows, "half": half, "last": last, "truth": truth, "poor": ["t = 2: mixes poorly"],
            "lost": ["mean: 0.200 ± 0.030, truth 0.500"]}  # fmt: skip


def test_a_page_of_nothing_says_so(tmp_path):
    made = page.page(tmp_path, QUICK)
    assert made.count("has not been run") == 5
    assert "These numbers only show that all runs" in made


def test_the_page_has_the_numbers_of_the_parts(tmp_path):
    sizes = PAPER._asdict() | {"n": 200}
    save(tmp_path / "regression.json", {"sizes": sizes, "data_sets": [data_set(1), data_set(2, inside=float("nan"))]})
    json.loads((tmp_path / "regression.json").read_text(), parse_constant=lambda name: 1 / 0)  # strict: no NaN
    save(tmp_path / "regression.json", {"sizes": sizes, "data_sets": [data_set(1), data_set(2, 0.7)]})
    save(tmp_path / "full.json", {"settings": {"n": 100, "steps": 10}, "rows": [row(1), row(2, R=3.0)]})
    made = page.page(tmp_path, PAPER)
    assert "| paper's algorithm, data set 1 | 85.0% | 8 of 200 | 100.0% | 9 of 200 |" in made
    assert "on 1 of 2 data sets (70% at worst): not on all data sets what the paper shows" in made
    assert "| space.lengthscale[1] | 2.00 | 2.00 ± 0.20 |" in made
    assert "- t = 2: mixes poorly" in made
    assert "- mean: 0.200 ± 0.030, truth 0.500" in made
    assert "The run stopped after t = 2 of 10" in made
    assert "It holds at 2 of 2 times" in made
    assert "| regression, all later t | 35 min | 2 s |" in made


def test_scores_are_judged_by_signed_ranks():
    """One data set with a very long tail hides nothing, and adds nothing."""
    helps, mixed = np.arange(1.0, 9.0), np.array([5.0, -1.0, 1.5, -2.0, 2.5, -3.0, 3.5, -400.0])
    helps[-1] = 900.0
    judged = regression_page.verdict_4(np.stack([helps, mixed], axis=1))
    assert "By the mean log density, the past helps: median +4.50" in judged
    assert "higher on 8 of 8, p = 0.0078 by signed ranks." in judged
    assert "By the log score, no difference beyond the noise of the data sets: median +0.25" in judged
    assert "the past hurts" in regression_page.verdict_4(-np.stack([helps, helps], axis=1))
    assert "no difference" in regression_page.verdict_4(np.zeros((2, 2)))


def test_drift_and_variance_are_named():
    drifting = full_page.verdict_9(
        [row(1), row(2, **{"bias noise": 2.0}), row(3, R=5.0, **{"bias noise": 6.0})], online=False
    )
    assert "The exact sd falls" in drifting
    assert "5.0 times the exact one at the end, as the paper shows" in drifting
    assert drifting.endswith("so it does drift.")
    still = full_page.verdict_9([row(1), row(2), row(3, **{"exact sd": 0.3})], online=False)
    assert "The exact sd does not fall" in still
    assert still.endswith("no drift either.")


def test_every_part_can_be_asked_for_alone():
    assert parse(["--only", *PARTS]).only == list(PARTS)
    assert parse(["--only"]).only == []
    assert parse(["--quick"]).page == parse(["--quick"]).out / "paper.md"
