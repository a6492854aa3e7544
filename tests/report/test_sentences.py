"""What a report says of a run: remarks added up, and all is well only where a check would have found it if not."""

from types import SimpleNamespace

import numpy as np

import seqgp
from seqgp.base.info import ChainInfo, OnlineInfo
from seqgp.base.remarks import Remark
from seqgp.plots.checks import Check
from seqgp.report.sentences import about_forecasts, about_latent, about_sampling, for_command_line, verdict


def info(step, warnings=(), effective=None):
    if effective is not None:
        return OnlineInfo(float(step), step, 1.0, 0.0, 0, {}, warnings, effective, -1.0, 0.1)
    return ChainInfo(float(step), step, 1.0, 0.0, 0, {}, warnings, {}, {}, {"noise": 400.0}, {}, 4, 0.0)


def check(t, most=0.95, half=0.5):
    return Check(t, np.linspace(0.01, 0.99, 50), half, most, 0.1, -1.0)


CHECKS = [check(t) for t in range(10)]


def test_kinds_are_not_merged():
    slow = str(Remark("slow mixing", ("scale",), "least ESS 3"))
    drift = "drift: the data lie above their predictions; check the data"
    sentences = about_sampling([info(1, (slow,)), info(2, (slow, drift)), info(3)])
    assert [sentence.text for sentence in sentences] == [
        "Slow mixing in 2 of 3 steps (scale in 2): least ESS 3.",
        "Drift in 1 of 3 steps: the data lie above their predictions; check the data.",
    ]
    assert not any(sentence.good for sentence in sentences)


def test_all_is_well_after_forecasts_and_particles():
    infos = [info(1, effective=120.0), info(2, effective=90.0)]
    (said,) = verdict(infos, CHECKS, about_forecasts(CHECKS))
    assert said.good
    assert said.text.startswith("No sign of trouble")
    assert "90 particles" in said.text


def test_all_is_not_well_for_want_of_a_check():
    """R-hat and ESS of single steps saw nothing when runs of another seed ended elsewhere."""
    (said,) = verdict([info(1), info(2)], CHECKS, about_forecasts(CHECKS))
    assert "No sign of trouble" not in said.text
    assert "seqgp.replicate" in said.text
    (said,) = verdict([info(1, effective=100.0)], [], [])
    assert "No sign of trouble" not in said.text
    assert "the forecasts" in said.text


def test_nor_where_anything_was_remarked_upon():
    bad = [check(t, 0.5) for t in range(10)]
    sentences = about_forecasts(bad)
    assert any(not sentence.good for sentence in sentences)
    assert verdict([info(1, effective=100.0)], bad, sentences) == []


def test_a_map_that_is_not_drawn_says_why():
    step = SimpleNamespace(x=np.array([[0.0, 0.0], [1.0, 1.0]]), t=0.0)
    history = SimpleNamespace(steps=[step])
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0))
    of_height = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.1), seqgp.means.Linear(["height"], weights=1.0))
    said = about_latent(history, False, of_height)
    assert "no map of the model between them: covariates of its mean (height) are known at the locations alone" in said
    assert "seqgp report --grid draws one" in said
    assert "report(…, model=…)" in about_latent(history, False, None)
    assert "no map" not in about_latent(history, True, seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.1)))


def judged(**shares):
    return about_forecasts([check(t, **shares) for t in range(10)])[0]


def test_intervals_are_judged_by_both_levels():
    """Of 100 data that count, two standard errors are 4 % at the level of 95 %, and 10 % at that of 50 %."""
    assert judged().good
    assert "too wide" in judged(half=0.62).text
    assert "too wide" in judged(most=1.0).text
    assert "too narrow" in judged(half=0.38).text
    assert "too narrow" in judged(most=0.89).text
    assert "heavy tails" in judged(most=0.89, half=0.62).text
    assert judged(most=0.92, half=0.57).good
    assert "62% inside their 50% one" in judged(half=0.62).text


def test_a_histogram_that_is_not_flat_is_said():
    rng = np.random.default_rng(0)
    ends = np.where(rng.random((10, 50)) < 0.5, 0.03 + 0.1 * rng.random((10, 50)), 0.6 + 0.1 * rng.random((10, 50)))
    checks = [Check(t, pit, 0.5, 0.95, 0.1, -1.0) for t, pit in enumerate(ends)]
    assert "PIT" in about_forecasts(checks)[0].text


def test_advice_is_for_the_command_line_where_that_was_used():
    said = for_command_line("too few particles for so many parameters; widen the priors, or raise particles=")
    assert said.endswith("or raise `particles` in [sampler]")
    assert "seqgp." not in for_command_line("which no step sees: seqgp.replicate measures it.")
    assert "seqgp." not in for_command_line("the linearisation is poor; compare with seqgp.SequentialSampler")
