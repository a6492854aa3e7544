"""Other ways in: data that come late, estimates made anew, a past that is discounted, transformed data, chains."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tests.oracles.dense import Rows

from . import api, tables, verdicts
from .cases import Case, Ran, compare, execute
from .sameness import same
from .truth import Unsure, answer

FULL = 1000  # draws of the chains of all times at once
LARGE = 50.0  # data beyond which their exponentials lose digits


def _after(ran: Ran, found: Any) -> Ran:
    """With the state and the info of a further step."""
    state, info = found
    return ran._replace(run=ran.run._replace(state=state, infos=[*ran.run.infos, info]))


def revised(case: Case) -> list[str]:
    """A snapshot that came late, or with other values at first, counts as if it had come in order."""
    rng = np.random.default_rng(case.seed)
    i = int(rng.integers(len(case.snapshots) - 1))
    t, x, y, context = case.snapshots[i]
    before = [one for j, one in enumerate(case.snapshots) if j != i]
    if rng.random() < 0.5 or i == 0:
        before = [*case.snapshots[:i], (t, x, np.full(len(y), np.nan), context), *case.snapshots[i + 1 :]]
    ran = execute(case._replace(snapshots=before))
    return compare(case, _after(ran, api.revise(ran.sampler, ran.run.state, [case.snapshots[i]])))


def late(case: Case) -> list[str]:
    """``seqgp update`` with a snapshot that came late, or was corrected: as the oracle has it; or left out, if told."""
    rng = np.random.default_rng(case.seed)
    i = int(rng.integers(len(case.snapshots) - 1))
    before = [one for j, one in enumerate(case.snapshots) if j != i]
    with tempfile.TemporaryDirectory() as folder:
        place, first = Path(folder), tables.fit(case._replace(snapshots=before), Path(folder))
        if rng.random() < 0.3:
            step = tables.update(case, place, "--late=skip")
            return same("update --late=skip: draws", step.state.latent, first.state.latent)
        step, ran = tables.update(case, place), execute(case._replace(snapshots=before))
        return compare(case, _after(ran, (step.state, step.info)))


def refreshed(case: Case) -> list[str]:
    """New estimates of all evidences leave the posterior what it is."""
    ran = execute(case)
    return compare(case, _after(ran, api.refresh(ran.sampler, ran.run.state)))


def forgetful(case: Case) -> list[str]:
    """``forget=0.5`` discounts what the past says of the parameters, and leaves the latent given them as it is."""
    case = case._replace(settings=case.settings | {"forget": 0.5})
    return compare(case, execute(case))


def transformed(case: Case) -> list[str]:
    """``data.transform`` on the command line is the model of the library with transformed data."""
    raw = [(t, x, np.exp(y), context) for t, x, y, context in case.snapshots]
    logs = [(t, x, np.log(y), context) for t, x, y, context in raw]
    with tempfile.TemporaryDirectory() as folder:
        step = tables.fit(case._replace(snapshots=raw), Path(folder), transform="log")
        whole = execute(case._replace(snapshots=logs))
        found = same("data.transform: draws", step.state.latent, whole.run.state.latent)
        return found + same("data.transform: evidence", step.info.log_evidence, whole.run.infos[-1].log_evidence)


def full(case: Case) -> list[str]:
    """``FullSampler``: the latent at all times at once, by Markov chains."""
    state, info = api.sample_all(api.build(case.model), case.snapshots, FULL)
    if info.warnings:
        raise Unsure(f"the chains of FullSampler warn: {info.warnings[0]}")
    rows = Rows.of([(t, x, np.full(len(x), np.nan), context) for t, x, _, context in case.snapshots])
    true = answer(case.model, case.snapshots, rows, np.random.default_rng(case.seed))
    draws = np.concatenate([np.asarray(level) for level in state.latent], axis=1)
    allowed = verdicts.Tolerance(0.05, 0.05, np.inf)
    return [str(one) for one in verdicts.check_draws("FullSampler", draws, true, info.min_ess / 2, allowed, False)]


def logarithms(case: Case) -> bool:
    """Whether the data can be logarithms: of numbers that are neither zero nor infinite."""
    values = np.concatenate([y for _, _, y, _ in case.snapshots])
    return bool(np.nanmax(np.abs(np.append(values, 0.0))) < LARGE)
