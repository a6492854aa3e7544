"""A model there and back: as TOML that a user would write, and in the manifest of a run."""

import jax

import seqgp
from seqgp.io.configuration import read_configuration
from seqgp.io.manifest import new_manifest, read_manifest, write_manifest
from seqgp.io.specification import specify

HEAD = """\
[data]
file = "a.csv"
time = "t"
inputs = ["lon", "lat"]
value = "y"
{data}
[run]
folder = "run"
[model]
{model}
"""


def toml(value) -> str:
    """Words as a TOML value."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def through_toml(model, folder, covariates=()) -> seqgp.Model:
    """Written to a file, and read from it."""
    words = specify(model)
    assert words is not None
    parts = "\n".join(f"{name} = {toml(value)}" for name, value in words.items())
    data = f"covariates = {toml({name: name for name in covariates})}"
    (folder / "a.toml").write_text(HEAD.format(data=data, model=parts))
    return read_configuration(folder / "a.toml").model.build()


def through_store(model, folder) -> seqgp.Model:
    """Written to the manifest of a run, and read from it."""
    write_manifest(folder, new_manifest(seqgp.SequentialSampler(model), jax.random.key(0), None))
    model = read_manifest(folder).build_model()
    assert model is not None
    return model
