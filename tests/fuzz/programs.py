"""A finding as a short program that reproduces it."""

from __future__ import annotations

from . import api
from .cases import Verdict


def program(verdict: Verdict) -> str:
    """The program, with what was found as comments."""
    case = verdict.case
    lines = [api.HEADER + f"model = {api.model_text(case.model)}", api.snapshots_text(case.snapshots)]
    lines.append(f"sampler = {api.sampler_text(case.settings)}")
    lines.append(f"run = seqgp.run(sampler, snapshots, key=jax.random.key({case.seed}), forecast=False)")
    lines.append("print(run.infos[-1].log_evidence, run.state.latent.mean(0), run.state.latent.std(0))")
    for question in case.questions:
        more = "" if not question.context else f", context={ {k: v.tolist() for k, v in question.context.items()} }"
        alone = "" if question.joint else ", joint=False"
        lines.append(
            f"x = np.array({question.x.tolist()})  # {question.kind}\n"
            f"p = seqgp.predict(jax.random.key(1), model, run.state, x, t={question.t!r}{more}{alone})\n"
            "print(np.mean(p.f, 0), np.std(p.f, 0))"
        )
    if case.smooth:
        lines.append(f"s = seqgp.smooth(jax.random.key(2), sampler, run.state, {case.smooth}, draws=2000)")
        lines.append("print([(f.mean(0), f.std(0)) for f in s.latent])")
    if case.past is not None:
        given = f"[{case.past.t!r}], x=np.array({case.past.x.tolist()}), draws=2000"
        lines.append(
            f"s = seqgp.smooth(jax.random.key(2), sampler, run.state, {given})  # with context where it is used"
        )
    lines += [f"# way: {verdict.way}", *(f"# {one}" for one in verdict.details)]
    return "\n".join(lines)
