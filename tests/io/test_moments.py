"""Times in words."""

import pytest

from seqgp.io.moments import moment_text


@pytest.mark.parametrize(
    "data",
    [None, "wind.csv", ["wind.csv"], {}, {"origin": None}, {"origin": 3}, {"origin": "spring"},
     {"origin": "2024-01-01", "unit": "moons"}, {"origin": 2024, "unit": "days"}],
)  # fmt: skip
def test_a_configuration_of_ones_own_says_nothing_of_dates(data):
    """``seqgp.run(…, configuration=…)`` remembers anything."""
    assert moment_text(2.0, data) == "t = 2"


def test_a_time_has_its_date_where_a_calendar_has_it():
    data = {"origin": "2024-02-28", "unit": "days"}
    assert moment_text(2.0, data) == "2024-03-01 (t = 2)"
    assert moment_text(1e9, data) == "t = 1000000000"
