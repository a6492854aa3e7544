"""Figure 9 and inequality 12: sequential against full sampling."""

from __future__ import annotations

from typing import Any

from experiments.comparison import markdown
from experiments.paper.words import heading, not_run

ALONE = "[All times at once](full_vs_sequential.md)"


def figure_9(found: dict[str, Any] | None) -> str:
    """Variance and bias against the exact posterior."""
    if found is None:
        return not_run("Figure 9: sequential against full sampling", "full", ALONE)
    rows, settings = found["rows"], found["settings"]
    online = "online R" in rows[0]
    header = ["t", "mean sd, exact", "mean sd, paper's", "R_t, paper's", "bias, exact sds"]
    header += ["R_t, online", "bias, online"] if online else []
    body = []
    for row in rows:
        cells = [str(row["t"]), f"{row['exact sd']:.3f}", f"{row['sd']:.3f}", f"{row['R']:.2f}", f"{row['bias']:.2f}"]
        body.append([*cells, *([f"{row['online R']:.2f}", f"{row['online bias']:.2f}"] if online else [])])
    text = heading("Figure 9: sequential against full sampling", "full")
    text += (
        f"{settings['n']} points at each of {settings['steps']} times; R_t is the variance against the exact one.\n\n"
    )
    if len(rows) < settings["steps"]:
        text += f"The run stopped after t = {len(rows)} of {settings['steps']}.\n\n"
    text += markdown(header, body) + "\n\n![Both posteriors at each time, and their mean sd](paper_figure9.png)\n\n"
    return text + f"**Verdict.** {verdict_9(rows, online)}\n"


def verdict_9(rows: list[dict[str, Any]], online: bool) -> str:
    """The three claims of the paper: the exact variance falls, the sequential one stays higher, nothing drifts."""
    first, middle, last = rows[0], rows[len(rows) // 2], rows[-1]
    falls = last["exact sd"] < 0.9 * first["exact sd"]
    higher = last["R"] > 1.2
    drifts = abs(last["bias noise"]) > max(2.0, 1.25 * abs(middle["bias noise"]))
    text = "The exact sd falls with t, as the paper says. " if falls else "The exact sd does not fall with t here. "
    text += f"The sequential variance is {last['R']:.1f} times the exact one at the end, "
    text += "as the paper shows. " if higher else "not higher as the paper shows. "
    text += f"The paper says that nothing drifts: the noise is {last['bias noise']:+.1f} exact sds from the exact "
    text += f"posterior at t = {last['t']} and {middle['bias noise']:+.1f} at t = {middle['t']}, "
    text += "so it does drift." if drifts else "so this run shows no drift either."
    if online:
        text += (
            f" The online sampler ends with R_t = {last['online R']:.2f} and a bias of {last['online bias']:.2f} sds."
        )
    return text


def inequality(found: dict[str, Any] | None) -> str:
    """Equal computing time: inequality 12."""
    if found is None or "full mse" not in found["rows"][0]:
        return not_run("Section 3: inequality 12", "full", ALONE)
    body, wins = [], 0
    for row in found["rows"]:
        won = row["full mse"] < row["full exact mse"]
        wins += won
        spent = f"{row['full cumulative seconds']:.0f}"
        body.append(
            [str(row["t"]), spent, f"{row['full mse']:.5f}", f"{row['full exact mse']:.5f}", "yes" if won else "no"]
        )
    header = ["t", "s", "MSE of E[f], sequential", "MSE, full sampler in the same time", "inequality 12 holds"]
    text = heading("Section 3: inequality 12", "full")
    text += (
        "The paper: for the same computing time the biased sequential estimate has the smaller mean square error if"
        " the bias is small enough. Here the full sampler has the seconds that the sequential one spent up to t.\n\n"
    )
    text += markdown(header, body) + "\n\n"
    return text + f"**Verdict.** It holds at {wins} of {len(body)} times.\n"
