"""Collect the pages of the site: ``python -m docs.build`` writes them to build/docs.

The API and configuration pages come from docstrings and schemas. The examples of a page make its figures; those of
accuracy.md come from its tables. Figures that take longer are checked in; their page names the command.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
import types
import typing
from pathlib import Path
from typing import Any

import matplotlib
from docs.examples import blocks, run_page, shown
from experiments.accuracy_figure import figures
from pydantic import BaseModel

import seqgp
from docs import notebooks
from seqgp.base.options import example_of, summary_of

DOCS = Path(__file__).parent
BUILT = DOCS.parent / "build" / "docs"
DIRECTIVE = re.compile(r"^::: (.+)$", re.MULTILINE)


WORDS = {  # of keys that are the arguments of a kernel, a likelihood or a sampler
    "jitter": "added to the diagonal of covariances, relative to scale²; a list is tried in turn",
    "latent": "the representation of the latent function",
    "nodes": "the number of knots along each input",
    "updates": "the MCMC updates of a sweep",
}


def api() -> str:
    """The page of all public names: mkdocstrings fills in the docstrings where ``::: NAME MEMBERS`` stands."""
    paths = {name: f"seqgp.{module}.{name}" for module, name in _declared("")}
    for package in ("kernels", "likelihoods", "means"):
        paths |= {f"{package}.{name}": f"seqgp.{package}.{module}.{name}" for module, name in _declared(package)}

    def directive(found: re.Match[str]) -> str:
        name, *members = found[1].split()
        shown = {"": "false", "*": "true"}.get(" ".join(members), f"[{', '.join(members)}]")
        return f"::: {paths.get(name, name)}\n    options:\n      members: {shown}"

    return DIRECTIVE.sub(directive, (DOCS / "api.md").read_text())


def _declared(package: str) -> list[tuple[str, str]]:
    """The module and the name of everything that the stub of a package declares, but for packages."""
    stub = ast.parse((DOCS.parent / "src" / "seqgp" / package / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module and node.level]
    return [
        (str(node.module), name)
        for node in imports
        for alias in node.names
        for name in (_all_of(f"seqgp.{package}.{node.module}") if alias.name == "*" else [alias.name])
    ]


def _all_of(module: str) -> list[str]:
    return list(importlib.import_module(module).__all__)


def configuration() -> str:
    """The page of all keys of a configuration, from the schema."""
    from seqgp.fleets.template import FleetSection
    from seqgp.io.configuration import Configuration

    lines = [
        "# Configuration",
        "",
        "`seqgp new my.toml` writes a commented configuration. `seqgp fit` refuses a key that is not listed here or",
        "has no effect, and names its line.",
        "",
        "A **parameter** is a number (known) or a prior (inferred). A prior is `{ low = 0, high = 3 }`, optionally",
        "with `loc` and `scale` of the Gaussian behind it, or",
        '`{ distribution = "Gamma", concentration = 2.0, rate = 1.0 }`.',
    ]
    for name, field in Configuration.model_fields.items():
        lines += _section(name, _model_of(field.annotation))
    lines += _section("fleet", FleetSection)
    return "\n".join(lines) + "\n"


_AS_TIME = ("", "## `[model.space]`", "", "A kernel, as in `[model.time]`, or a list of kernels, one per input.")


def _section(name: str, model: Any) -> list[str]:
    lines = [
        "",
        f"## `[{name}]`",
        "",
        inspect.getdoc(model) or "",
        "",
        "| key | what | values | default |",
        "|---|---|---|---|",
    ]
    below = []
    for key, field in model.model_fields.items():
        inner = _model_of(field.annotation)
        if inner is not None and name == "model" and key in ("time", "space", "likelihood"):
            below += [*_AS_TIME] if key == "space" else _section(f"{name}.{key}", inner)
            continue
        if inner is not None and key in ("mean", "terms"):
            below += _section(f"{name}.{key}", inner)
        default = "required" if field.is_required() else _default(field)
        bounds = ", ".join(_bound(rule) for rule in field.metadata if _bound(rule))
        what = field.description or WORDS.get(key, "")
        lines.append(f"| `{key}` | {what} | {_values(field.annotation)}{f', {bounds}' if bounds else ''} | {default} |")
    return lines + below


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    return "–" if value is None or value == {} else f"`{value}`"


def _bound(rule: Any) -> str:
    for sign, name in ((">=", "ge"), ("<=", "le"), (">", "gt"), ("<", "lt")):
        if getattr(rule, name, None) is not None:
            return f"{sign} {getattr(rule, name)}"
    return ""


def _model_of(kind: Any) -> Any:
    """The pydantic model inside an annotation, if there is one."""
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return kind
    for inner in typing.get_args(kind):
        found = _model_of(inner)
        if found is not None and found.__name__ not in ("SigmoidSpec", "DistributionSpec"):
            return found
    return None


def _values(kind: Any) -> str:
    if "KernelSpec" in str(kind):
        return "a list of kernels" if "tuple" in str(kind) and "Tag" not in str(kind) else "a kernel"
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return "a table"
    if "TermSpec" in str(kind):
        return "a list of tables"
    if "ModulatedSpec" in str(kind):
        return "a parameter, or one with a season"
    if "HarmonicsSpec" in str(kind):
        return "a list of names and tables"
    if kind is Any or "SigmoidSpec" in str(kind):
        return "a parameter" + (", or a list of them" if "tuple" in str(kind) else "")
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return ", ".join(f'`"{value}"`' for value in typing.get_args(kind))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_values(inner) for inner in typing.get_args(kind) if inner is not type(None))
    if origin is typing.Annotated and "$list" in str(kind) and "_as_number" in str(kind):
        return "a number, or a list of them"
    if origin is typing.Annotated and "_as_number" in str(kind):
        return "a number"
    if origin is typing.Annotated:
        return _values(typing.get_args(kind)[0])
    if origin is tuple:
        return f"a list of {_values(typing.get_args(kind)[0])}"
    if origin is dict:
        return "a table of names"
    return {str: "text", int: "a whole number", float: "a number"}.get(kind, str(kind))


def models() -> str:
    """The page of kernels, likelihoods and means: its tables have a row for each class."""
    page = (DOCS / "models.md").read_text()
    for package, base in ((seqgp.kernels, seqgp.kernels.Kernel), (seqgp.likelihoods, seqgp.likelihoods.Likelihood)):
        room = package.__name__.rpartition(".")[2]
        rows = [
            f"| `{example_of(part, f'{room}.{name}')}` | {summary_of(part).replace('``', '`')} |"
            for name, part in package.catalogue.classes(base).items()
        ]
        start, end = f"<!-- {room}: `make docs` writes these rows -->\n", f"<!-- end of {room} -->\n"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = before + start + "\n".join([f"| {room} | |", "|---|---|", *rows, ""]) + end + after
    return page


PAGES = {"api.md": api, "configuration.md": configuration, "models.md": models}
CHECKED_IN = ("configuration.md", "models.md")  # so that they can be read without a site


def assemble(target: Path) -> None:
    """Copy and generate all pages, and draw the figures of accuracy.md from its tables."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name, made in PAGES.items():
        (target / name).write_text(made())
    notebooks.place(target)
    for name, figure in figures((DOCS / "accuracy.md").read_text()).items():
        figure.savefig(target / name, dpi=110)


def lacking(target: Path) -> dict[Path, list[Path]]:
    """The figures that each page with examples shows and that do not exist yet."""
    found = {}
    for page in sorted(DOCS.glob("*.md")):
        missing = [target / name for name in shown(page) if not (target / name).exists()]
        if missing and any(block.language == "python" for block in blocks(page)):
            found[page] = missing
    return found


def illustrate(target: Path) -> None:
    """Run the examples of each page that lacks figures, and copy the figures that they save."""
    for page, missing in lacking(target).items():
        print(f"{page.name}: {len(missing)} figures", flush=True)
        with run_page(page) as folder:
            for path in missing:
                shutil.copy(folder / path.name, path)


def main() -> None:
    """Build all pages, and write those that are checked in."""
    matplotlib.use("agg")
    for name in CHECKED_IN:
        (DOCS / name).write_text(PAGES[name]())
    assemble(BUILT)
    illustrate(BUILT)


if __name__ == "__main__":
    main()
