"""The commented configuration that ``seqgp new`` writes."""

TEMPLATE = """\
# A run of seqgp: `seqgp fit {name}` samples after each time in the table, and keeps the draws in run.folder.

[data]
file = "measurements.csv"      # CSV or Parquet; rows of equal time are one snapshot
time = "t"                     # numbers, or dates (then: unit = "days")
inputs = ["x1", "x2"]          # where the latent function is evaluated
value = "y"                    # the measurements; empty cells are missing values
# location = "station"         # names of the locations, for the report
# covariates = {{ elevation = "height_m" }}   # what mean or likelihood need besides: name = "column"

# A parameter is a number (known) or a prior (inferred): {{ low = …, high = … }} for something between two bounds,
# or a distribution by name: {{ distribution = "Gamma", concentration = 2.0, rate = 1.0 }}.
[model]
scale = {{ low = 0, high = 2 }}           # the standard deviation of the latent function
mean = {{ low = -1, high = 1 }}           # its mean; or, with covariates:
# mean = {{ features = ["elevation"], weights = {{ distribution = "Normal", loc = 0, scale = 1 }}, intercept = 0.5 }}

[model.time]
kernel = "Matern32"                     # or Matern12, Matern52, SquaredExponential, RationalQuadratic (slower)
# sum = [ {{ kernel = "Matern32" }}, {{ product = [ … ] }} ]   # in place of a name: kernels that add or multiply
lengthscale = {{ low = 0, high = 3 }}     # in units of the time column

[model.space]
kernel = "SquaredExponential"
lengthscale = [{{ low = 0, high = 3 }}, {{ low = 0, high = 3 }}]   # one, or one per input

[model.likelihood]
family = "Gaussian"                     # or StudentT, Poisson, Bernoulli, Binomial, Gamma, Censored, …
noise = {{ low = 0, high = 1 }}           # a standard deviation

[sampler]
draws = 1000                   # at each time
# method = "auto"              # "online" where the model allows it, else "sequential", the algorithm of the paper
# particles = 256              # of the online sampler: values of the parameters, each with a filter of its own
# latent = "auto"              # or "dense", "grid" (inputs that never change), "knots" (many points)

[run]
folder = "{folder}"
# title = "My measurements"     # of the report
seed = 0
# keep = 30                    # whole steps on disk; of older ones only summaries
# metrics = "wind.prom"        # rewritten after each step, for Prometheus
"""
