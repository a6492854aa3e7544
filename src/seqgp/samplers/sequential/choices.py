"""From what a user asked for to what is run: names, ready-made objects, and objects that keep the protocol."""

from __future__ import annotations

from seqgp.base.errors import SamplerError
from seqgp.base.validation import lacking
from seqgp.mcmc.chains import Recipe
from seqgp.mcmc.exploration import is_differentiable
from seqgp.mcmc.informed import Informed
from seqgp.mcmc.plain import Plain
from seqgp.mcmc.problem import Problem
from seqgp.mcmc.updates import Updates
from seqgp.model import Model

UPDATES = {"plain": Plain, "informed": Informed}


def choose_updates(updates: str | Updates) -> Updates | None:
    """The updates that a user's ``updates=`` stands for; None for ``"auto"``, which the likelihood decides."""
    if isinstance(updates, str) and updates == "auto":
        return None
    if isinstance(updates, str) and updates in UPDATES:
        return UPDATES[updates]()
    if isinstance(updates, Updates) and not isinstance(updates, type):
        return updates
    raise SamplerError(
        f"updates = {updates!r}: expected 'auto', 'plain', 'informed', seqgp.Plain(…) or seqgp.Informed(…)"
        + lacking(Updates, updates)
    )


def recipe_of(model: Model, updates: Updates | None, problem: Problem) -> Recipe:
    """What is compiled in; by default, informed updates where the likelihood can be differentiated, else plain ones."""
    if updates is not None and not updates.needs_gradient:
        return Recipe(model, updates)
    if is_differentiable(model, problem):
        return Recipe(model, Informed() if updates is None else updates)
    if updates is None:
        return Recipe(model, Plain())
    raise SamplerError(
        f"updates = {updates.name!r} needs a likelihood that JAX can differentiate, and this one cannot be (a callback "
        "to NumPy, or a loop that reverse mode does not know?): use updates='plain' or 'auto'"
    )
