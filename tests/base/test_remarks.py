"""Remarks are read by people, and added up by kind and by what they are about."""

from seqgp.base.remarks import Remark, add_up, headline, parse

SLOW = str(Remark("slow mixing", ("scale", "noise"), "least ESS 12 of 1000 draws (1.2 %); raise sweeps or draws"))
DRIFT = "drift: in the last 20 steps the data lie above their predictions (p = 1e-05); check the data"


def test_a_remark_is_a_sentence_and_its_parts():
    assert SLOW.startswith("slow mixing (scale, noise): least ESS 12")
    assert parse(SLOW) == Remark(
        "slow mixing", ("scale", "noise"), "least ESS 12 of 1000 draws (1.2 %); raise sweeps or draws"
    )
    assert parse(DRIFT).kind == "drift"
    assert parse(DRIFT).about == ()
    assert parse("words alone") == Remark("words alone", (), "")


def test_a_step_says_one_line():
    assert headline([]) == ""
    assert headline([SLOW]) == SLOW
    both = headline([SLOW, DRIFT, str(Remark("slow mixing", ("mean",), "as well"))])
    assert both == "slow mixing (scale, noise, mean); drift"


def test_a_run_adds_up_by_kind_and_parameter():
    other = str(Remark("slow mixing", ("noise",), "least ESS 3"))
    slow, drift = add_up([[SLOW], [other, DRIFT], [], [SLOW]])
    assert (slow.kind, slow.steps, slow.about) == ("slow mixing", 3, {"noise": 3, "scale": 2})
    assert slow.among(4) == "slow mixing in 3 of 4 steps (noise in 3, scale in 2)"
    assert drift.among(4) == "drift in 1 of 4 steps"
    assert add_up([[SLOW]])[0].among(1) == "slow mixing in the only step (scale, noise)"
