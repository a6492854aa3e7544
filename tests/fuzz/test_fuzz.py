"""The fuzzer itself: a fixed set of cases finds nothing, and each planted fault is found."""

import numpy as np
import pytest
from tests.fuzz import ways
from tests.fuzz.cases import draw_case, judge
from tests.fuzz.faults import FAULTS
from tests.fuzz.shapes import Shape


def slot(role):
    return ("?", role, "narrow")


def shape(number, family, pattern="complete", stations=3, times=3, time="Matern32", mean=0.0, paths=None, **like):
    term = {
        "time": {"kind": time, "lengthscale": slot("time")},
        "space": {"kind": "Matern32", "lengthscale": slot("space")},
        "scale": slot("scale"),
    }
    model = {
        "terms": [term],
        "mean": {"intercept": mean, "features": []},
        "likelihood": {"family": family, **like},
    }
    settings = {"particles": 16, "draws": 4000} | ({} if paths is None else {"paths": paths})
    return Shape(number, model, pattern, stations, 1, times, settings, "narrow")


SHAPES = {
    "complete": shape(1, "Gaussian", noise=slot("noise"), mean=slot("normal")),
    "gaps": shape(2, "Gaussian", "gaps", stations=4, noise=slot("noise")),
    "counts": shape(3, "Binomial", "one", stations=1, times=2, time="Matern12", paths="64", trials="trials"),
}
CASES = 20  # of each shape


@pytest.mark.parametrize("name", SHAPES)
def test_cases_are_equal_to_the_oracle_or_refused_for_a_true_reason(name):
    wrong, outcomes = [], []
    for seed in range(CASES):
        case = draw_case(SHAPES[name], seed)
        way = ways.draw_way(np.random.default_rng(seed + 1), case)  # seed 0 alone would go to the command line
        verdict = judge(case, way, ways.WAYS[way])
        outcomes.append(verdict.outcome)
        wrong += [f"case {seed}, {way}: {one}" for one in verdict.details if verdict.outcome == "finding"]
    assert not wrong, "\n".join(wrong)
    assert outcomes.count("equal") > 0.8 * CASES


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name, monkeypatch):
    """Within a few cases of a shape that can show it; over all shapes within 200."""
    from seqgp.runtime import engine

    fault = FAULTS[name]
    engine.forget()  # what was compiled before is without the fault
    fault.plant(monkeypatch)
    found = []
    for seed in range(fault.most):
        case = draw_case(SHAPES[fault.shape], seed)
        for way in fault.ways:
            if ways.suitable(way, case) and judge(case, way, ways.WAYS[way]).outcome == "finding":
                found.append((seed, way))
        if found:
            break
    monkeypatch.undo()
    engine.forget()
    assert found
    (seed, way), *_ = found  # the same case is right without the fault
    assert judge(draw_case(SHAPES[fault.shape], seed), way, ways.WAYS[way]).outcome == "equal"
