"""How draws are spread over chains and pieces, as the updates and the user want it."""

import pytest

import seqgp
from seqgp.mcmc.plan import Budget, divisor_near, plan_of


@pytest.mark.parametrize("updates", [seqgp.Plain(), seqgp.Informed(), seqgp.Informed(adapt=30)])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("draws", [40, 1000, 997])
def test_all_draws_in_whole_pieces(updates, first, draws):
    plan = plan_of(Budget(draws, None, None, None), updates, first)
    assert plan.chains * plan.draws == draws
    assert plan.draws % plan.piece == plan.warmup % plan.piece == 0


def test_the_updates_plan_their_warm_up():
    plain, informed, adaptive = seqgp.Plain(), seqgp.Informed(), seqgp.Informed(adapt=30)
    open_ = Budget(1000, None, None, None)
    first = [plan_of(open_, updates, True) for updates in (plain, informed)]
    assert [plan.thin for plan in first] == [5, 1]
    assert [plan.warmup * plan.thin for plan in first] == [500, 200]
    later = [plan_of(open_, updates, False).warmup for updates in (plain, informed, adaptive)]
    assert later == [10, 10, 30]
    assert informed.schedule(False).stages == ()
    assert adaptive.schedule(False).stages == informed.schedule(True).stages


def test_a_users_numbers_take_precedence():
    plan = plan_of(Budget(100, 2, 30, 3), seqgp.Informed(), True)
    assert (plan.chains, plan.draws, plan.thin, plan.warmup) == (2, 50, 3, 10)


def test_divisors():
    assert divisor_near(1000, 4) == 4
    assert divisor_near(7, 4) in (1, 7)
    assert all(n % divisor_near(n, 5) == 0 for n in range(1, 200))
