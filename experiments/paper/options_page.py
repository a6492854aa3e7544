"""Figures 5 and 6: option prices."""

from __future__ import annotations

from typing import Any

from experiments.comparison import markdown
from experiments.paper.words import heading, not_run, pm

ALONE = "[Local volatility: results](local_volatility_results.md#the-papers-example)"
LABELS = {"paper": "paper's algorithm", "online": "online sampler"}


def figures_5_and_6(found: dict[str, dict[str, Any] | None]) -> str:
    """Coverage of volatilities, prices and data at the last time and over all."""
    ran = {name: part for name, part in found.items() if part}
    if not ran:
        return not_run("Figures 5 and 6: option prices", "options-paper options-online", ALONE)
    body = []
    number = len(next(iter(ran.values()))["steps"])
    for name, part in ran.items():
        last, summary = part["steps"][-1], part["summary"]
        shares = [f"{last[k]:.0%}" for k in ("volatility_inside", "price_inside", "data_inside")]
        forecast = "–" if summary["forecast"] is None else f"{summary['forecast']:.0%}"
        lengthscale = pm(last["parameters"]["time.lengthscale"])
        body.append([LABELS[name], *shares, forecast, f"{summary['ess']:.0f}", lengthscale])
    header = [
        "",
        "true σ at the end",
        "true prices",
        "data",
        "forecasts, all t",
        "least ESS",
        "time lengthscale (truth 0.50)",
    ]
    text = heading("Figures 5 and 6: option prices", " ".join(f"options-{name}" for name in ran))
    text += (
        "The paper reports in words: the posterior covers the true volatilities, it is wide where the strike is low,"
        f" and the MAP is close to prices at the money. Shares inside 95% intervals, {number} times:\n\n"
    )
    text += markdown(header, body) + "\n\n"
    for figure, what in ((5, "Volatilities at the last time"), (6, "Prices at the last time")):
        name = "paper" if "paper" in ran else next(iter(ran))
        text += f"![{what}, {LABELS[name]}](paper_figure{figure}_{name}.png)\n\n"
    return text + f"**Verdict.** {verdict_options(ran)}\n"


def verdict_options(ran: dict[str, dict[str, Any]]) -> str:
    """Coverage as the paper says, and whether the draws can bear it."""
    texts = []
    for name, part in ran.items():
        inside, ess = part["steps"][-1]["volatility_inside"], part["summary"]["ess"]
        covered = "covers the true volatilities" if inside >= 0.9 else "does not cover the true volatilities"
        trust = "" if ess >= 100 else f", but with {ess:.0f} effective draws at the worst time it has not converged"
        texts.append(f"{LABELS[name].capitalize()}: {covered} ({inside:.0%} at the end){trust}.")
    return " ".join(texts)
