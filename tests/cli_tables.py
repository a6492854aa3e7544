"""A configuration and tables to give to the command line."""

CONFIG = """\
[data]
file = "table.csv"
time = "t"
inputs = ["x1", "x2"]
value = "y"
location = "station"

[model]
scale = { low = 0, high = 2 }
mean = { low = -1, high = 1 }

[model.time]
kernel = "SquaredExponential"
lengthscale = { low = 0, high = 3 }

[model.space]
kernel = "SquaredExponential"
lengthscale = [{ low = 0, high = 3 }, 1.0]

[model.likelihood]
family = "Gaussian"
noise = { low = 0, high = 1 }

[sampler]
draws = 20
chains = 2
warmup = 10
thin = 1
latent = "dense"
updates = "plain"

[run]
folder = "run"
seed = 3
"""


def rows(times, n=4):
    lines = ["t,x1,x2,y,station"]
    for t in times:
        lines += [f"{t},{0.2 * i},{(0.37 * i) % 1},{(0.7 * i + t) % 1:.3f},S{i}" for i in range(n)]
    return "\n".join(lines) + "\n"
