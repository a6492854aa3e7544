"""The page of accuracy: its tables folded away, and its figures drawn from them."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from experiments.accuracy_figure import figures
from experiments.accuracy_page import document, section

COLUMNS = ("R", "bias", "rmse ratio", "coverage", "exact coverage", "log score", "exact log score", "seconds", "sd a")


def rows():
    """Two data sets of two samplers at three times, whose values say where they belong."""
    found = []
    for seed, (who, shift), t in itertools.product((0, 1), (("sequential", 2.0), ("online", 1.0)), (2, 5, 9)):
        values = dict.fromkeys(COLUMNS, 1.0) | {"R": shift + 0.1 * t + 0.02 * seed, "bias": 0.01 * t, "bias a": 0.0}
        found.append({"seed": seed, "sampler": who, "tau": 1, "t": t} | values)
    return found


def test_the_figures_show_what_the_tables_say():
    page = document({"regression": section("regression", rows(), ["a"])}, "informed")
    assert page.count("<details markdown>") == page.count("</details>") == 3
    made = figures(page)
    assert list(made) == ["accuracy_regression.png"]
    left, _ = made["accuracy_regression.png"].axes
    drawn = {container.get_label(): container.lines[0].get_xydata() for container in left.containers}
    for name, shift in (("sequential, a window of 1", 2.01), ("online", 1.01)):
        np.testing.assert_allclose(drawn[name], [[t, shift + 0.1 * t] for t in (2, 5, 9)], atol=0.0051)
    plt.close("all")
