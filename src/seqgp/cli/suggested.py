"""The configuration that ``seqgp new --table`` writes: the columns of a table, and the suggested model."""

from __future__ import annotations

import json
import os
from pathlib import Path

from seqgp.evaluate.explore import DataExploration
from seqgp.evaluate.suggestion import SuggestedPrior, findings
from seqgp.evaluate.trend import Trend
from seqgp.io.tables import Columns

TEXT = """\
# A run of seqgp: `seqgp fit {name}` samples after each time in the table, and keeps the draws in run.folder.
# What `seqgp explore {name}` found in the table:
{found}

[data]
file = {file}
time = {time}
inputs = {inputs}
value = {value}
{more}
# A parameter is a number (known) or a prior (inferred). These priors are wide around what was found in the data.
[model]
scale = {scale}     # the standard deviation of the latent function
{mean}{slowness}
[model.time]
kernel = "{kernel_in_time}"
lengthscale = {time_lengthscale}     # in units of the time column

[model.space]
kernel = "{kernel_in_space}"
lengthscale = {space_lengthscale}     # in units of the inputs

[model.likelihood]
family = "Gaussian"
noise = {noise}

[sampler]
draws = 1000                   # at each time

[run]
folder = "runs/{stem}"
seed = 0
"""


MEAN = """\
mean = {mean}       # its mean
"""
TREND = """\

[model.mean]     # intercept + weight · feature
features = [{features}]
weights = [{weights}]
intercept = {mean}
"""


def configuration_text(
    config: Path, table: Path, columns: Columns, found: DataExploration, trend: Trend, dates: bool
) -> str:
    """The text of a configuration for a table, relative to where it will be."""
    suggested = found.suggested
    priors = {name: _prior(prior) for name, prior in suggested.priors.items()}
    more = [f"location = {_text(columns.location)}"] if columns.location is not None else []
    pairs = (f"{_text(name)} = {_text(column)}" for name, column in columns.covariates.items())
    more += [f"covariates = {{ {', '.join(pairs)} }}"] if columns.covariates else []
    more += [f"transform = {_text(columns.transform.kind)}"] if columns.transform is not None else []
    more += [f"unit = {_text(columns.unit)}"] if dates else []
    slowness = ", ".join(_prior(one) for one in suggested.slowness())
    return TEXT.format(
        name=config.name,
        stem=config.stem,
        found="\n".join(f"#   {line}" for line in [*trend.lines(), *findings(found)]),
        file=_text(os.path.relpath(table, config.parent)),
        time=_text(columns.time),
        inputs=f"[{', '.join(_text(name) for name in columns.inputs)}]",
        value=_text(columns.value),
        more="".join(f"{line}\n" for line in more),
        scale=priors["scale"],
        mean="" if trend.priors else MEAN.format(mean=priors["mean"]),
        slowness=_lines_of_slowness(slowness) + _lines_of_trend(trend, priors["mean"]),
        kernel_in_time=suggested.time,
        kernel_in_space=suggested.space,
        time_lengthscale=priors["time.lengthscale"],
        space_lengthscale=priors["space.lengthscale"],
        noise=priors["noise"],
    )


def _lines_of_slowness(slowness: str) -> str:
    return f"slowness = [{slowness}]     # a delay: time per distance\n" if slowness else ""


def _lines_of_trend(trend: Trend, mean: str) -> str:
    if not trend.priors:
        return ""
    weights = ", ".join(_prior(prior) for prior in trend.priors.values())
    return TREND.format(features=", ".join(map(_text, trend.priors)), weights=weights, mean=mean)


def _prior(prior: SuggestedPrior) -> str:
    if prior.distribution == "ScaledSigmoid":
        return f"{{ low = {prior.first!r}, high = {prior.second!r} }}"
    return f'{{ distribution = "{prior.distribution}", loc = {prior.first!r}, scale = {prior.second!r} }}'


def _text(words: str | None) -> str:
    """A string of TOML: JSON's quotes and escapes are TOML's."""
    return json.dumps(words, ensure_ascii=False).replace("\x7f", "\\u007f")
