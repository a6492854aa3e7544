"""The command ``localvol``: from a table of option quotes to surfaces with bands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from seqgp.cli.common import Debug, Json, Mistake, Seed, command, console, show
from seqgp.cli.localvol_results import day_lines, day_row, last_table, write_excluded, write_quantlib, write_results
from seqgp.io.frames import READERS, read_numbered
from seqgp.io.store import Store
from seqgp.runtime import stopping

RUN = "run"  # in the folder of the results
SAMPLERS = ("online", "laplace")

KnotsOption = Annotated[
    tuple[int, int], typer.Option(help="Knots in maturity and in log-moneyness, at least two each.")
]
Pairs = list[str] | None


@command(stopped="every finished day is kept, and the same command goes on")
def localvol(
    quotes: Annotated[
        Path,
        typer.Argument(
            metavar="QUOTES.csv",
            help="One row a quote: quote_date, expiration, strike, option_type, bid, ask or price.",
        ),
    ],
    folder: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")] = Path("localvol"),
    column: Annotated[Pairs, typer.Option(metavar="OURS=THEIRS", help="A column of another name; repeatable.")] = None,
    where: Annotated[
        Pairs, typer.Option(metavar="COLUMN=VALUE", help="Keep rows with this value, currency=BTC, say; repeatable.")
    ] = None,
    forward: Annotated[
        Pairs, typer.Option(metavar="[DATE=]NUMBER", help="The forward, of one expiration or of all; repeatable.")
    ] = None,
    discount: Annotated[
        Pairs, typer.Option(metavar="[DATE=]NUMBER", help="The discount, of one expiration or of all; repeatable.")
    ] = None,
    noise: Annotated[
        str, typer.Option(help="What the noise is constant in: volatility, spread or price.")
    ] = "volatility",
    robust: Annotated[bool, typer.Option("--robust", help="Student-t noise, against outliers.")] = False,
    knots: KnotsOption = (6, 24),
    surface: Annotated[
        str, typer.Option(help="The prior: separable, or sticky (it infers what the surface does as the spot moves).")
    ] = "separable",
    min_maturity: Annotated[float, typer.Option(help="Leave out shorter maturities, in years.")] = 0.05,
    deviations: Annotated[
        float, typer.Option(help="Leave out strikes further from the money than so many of the day's deviations.")
    ] = 2.0,
    holdout: Annotated[float, typer.Option(min=0.0, max=0.9, help="The share of each day's quotes to score.")] = 0.0,
    sampler: Annotated[str, typer.Option(help="online, or laplace.")] = "online",
    fast: Annotated[
        bool, typer.Option("--fast", help="The same as --sampler laplace: mode and bands at once.")
    ] = False,
    quantlib: Annotated[Path | None, typer.Option(help="Write the last mean surface for QuantLib, as JSON.")] = None,
    watch: Annotated[
        float, typer.Option(min=0.0, max=86400, help="Look at the table again every so many seconds, for new times.")
    ] = 0.0,
    draws: Annotated[int, typer.Option(min=20, help="Draws of each day.")] = 1000,
    seed: Seed = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Infer local volatility from option quotes, day after day: surfaces, smiles and errors.

    Every day is on disk before the next one begins: the same command goes on where it was interrupted, and takes in
    days that were added since. With --fast nothing is kept but the results.
    """
    chosen = "laplace" if fast else sampler
    if chosen not in SAMPLERS:
        raise Mistake(f"--sampler {sampler}: expected one of {', '.join(SAMPLERS)}")
    options = {"columns": _pairs("--column", column), "where": _pairs("--where", where), "min_maturity": min_maturity}
    options |= {"forwards": _numbers("--forward", forward), "discounts": _numbers("--discount", discount)}
    table = _Table(quotes, options, deviations, holdout, seed or 0)
    store = None if chosen == "laplace" else _store(folder)
    _check_folder(folder, store)
    days = table.read()
    model = _model(table, store, days, knots, surface, noise=noise, robust=robust)
    fit = _fit(chosen, model, draws, seed or 0, store)
    _Session(fit, table, folder, json, quantlib).run(days, watch)


class _Day(NamedTuple):
    """The quotes of a date: those to learn from, and those to score."""

    learnt: Any
    held_out: Any | None


class _Table:
    """A file of quotes, read as often as it changes."""

    def __init__(self, path: Path, options: dict[str, Any], deviations: float, holdout: float, seed: int):
        self.path, self.options, self.deviations = path, options, deviations
        self.holdout, self.seed = holdout, seed
        self.chosen: Any = None
        self._mark: Any = None

    def read(self) -> dict[Any, _Day]:
        """The days by date; what is wrong is named with the file."""
        from seqgp.apps.localvol import Quotes

        path = self.path
        self._mark = self._state()
        known = path.suffix.lower() in READERS or not path.is_file()
        try:  # what pandas reads besides, a table that is compressed, say, it reads by itself
            given = dict(self.options, drop_arbitrage=False)
            table = Quotes.from_frame(read_numbered(path), **given) if known else Quotes.from_csv(path, **given)
            self.chosen = table.select(max_deviations=self.deviations)
            train, test = self.chosen.split(self.holdout, self.seed) if self.holdout else (self.chosen, None)
            self.train = train.without_arbitrage()
            return {date: _Day(self.train.day(date), test and test.day(date)) for date in self.train.dates}
        except (ValueError, KeyError) as error:
            text = str(error.args[0] if error.args else error)
            raise Mistake(text if text.startswith(f"{path}: ") else f"{path}: {text}") from error

    def changed(self) -> bool:
        """Whether the file is another than when it was read."""
        return self._state() not in (None, self._mark)

    def _state(self) -> Any:
        try:
            found = self.path.stat()
        except OSError:  # being replaced at this moment
            return None
        return found.st_mtime_ns, found.st_size


class _Session:
    """Days taken one after the other, and what is written and said of them."""

    def __init__(self, fit: Any, table: _Table, folder: Path, as_json: bool, quantlib: Path | None):
        self.fit, self.table, self.folder, self.as_json, self.quantlib = fit, table, folder, as_json, quantlib
        self.rows: list[dict[str, Any]] = []

    def run(self, days: dict[Any, _Day], watch: float) -> None:
        """All days that there are, and with ``watch`` those to come."""
        self.take(days)
        try:
            while watch:
                stopping.pause(watch)
                if self.table.changed():
                    self.again()
        except KeyboardInterrupt:
            console().print(f"stopped; {self.folder} is whole up to {self.rows[-1]['date']}", markup=False)

    def again(self) -> None:
        """What is new in a table that has changed; a table that cannot be read is named, and waited for."""
        try:
            days = self.table.read()
        except Mistake as error:
            console().print(f"seqgp: {error}; waiting for another one", markup=False)
            return
        last = self.fit.days[-1].date
        new = {date: day for date, day in days.items() if date > last}
        if new:
            self.take(new)

    def take(self, days: dict[Any, _Day]) -> None:
        """Predict, learn from and score days; then write the results."""
        day = None
        for day in days.values():
            self.fit.update(day.learnt)
            self.rows.append(day_row(self.fit, day.held_out))
            if not self.as_json:
                console().print("\n".join(day_lines(self.rows[-1])), markup=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_excluded(self.folder, self.table.train.excluded)
        write_results(self.fit, self.folder, day and day.held_out)
        if self.quantlib is not None:
            write_quantlib(self.fit, self.quantlib)
        said = {"folder": self.folder, "days": self.rows, "excluded": len(self.table.train.excluded)}
        show(said, self.as_json, lambda out: out.print(last_table(self.fit, self.folder)))


def _fit(chosen: str, model: Any, draws: int, seed: int, store: Store | None) -> Any:
    from seqgp.apps.localvol import Laplace, LocalVolFit

    if chosen == "laplace":
        return LocalVolFit(model, seed=seed, sampler=Laplace(model.model, draws))
    assert store is not None
    return LocalVolFit(model, draws, seed, store=store.path)


def _store(folder: Path) -> Store:
    return Store(folder / RUN)


def _check_folder(folder: Path, store: Store | None) -> None:
    """A new folder, one that holds such a run, or the results of a fit that is not stored."""
    if (store is not None and store.exists) or not folder.exists():
        return
    held = list(folder.iterdir()) if folder.is_dir() else [folder]
    ours = store is None and (folder / "expirations.csv").exists() and not (folder / RUN).exists()
    if held and not ours:
        raise Mistake(f"{folder}: is there already, and holds no run to go on with; choose another folder with -o")


def _model(table: _Table, store: Store | None, days: dict, shape: tuple[int, int], surface: str, **options: Any) -> Any:
    """The model of the quotes; that of the run, where there is one: days that are added keep its knots."""
    from seqgp.apps.localvol import LocalVolatility

    try:
        if store is None or not (store.exists and len(store)):
            model = LocalVolatility.for_quotes(table.train, shape, surface=surface, **options)
        else:
            model = LocalVolatility.at_knots(**_held_knots(store, shape, surface), **options)
        for day in days.values():
            model.snapshot(day.learnt)
    except ValueError as error:
        raise Mistake(f"{table.path}: {error}") from error
    return model


def _held_knots(store: Store, shape: tuple[int, int], surface: str) -> dict[str, Any]:
    knots = (store.manifest.configuration or {}).get("localvol")
    if knots is None:
        raise Mistake(f"{store.path}: holds another run, not one of `seqgp localvol`; choose another folder with -o")
    held = (len(knots["maturities"]), len(knots["log_moneyness"]))
    if held != tuple(shape):
        raise Mistake(
            f"{store.path}: the run has --knots {held[0]} {held[1]}, not {shape[0]} {shape[1]}; give the same ones, or "
            "another folder with -o"
        )
    prior = knots.get("surface", "separable")
    if prior != surface:
        raise Mistake(f"{store.path}: the run has --surface {prior}, not {surface}; give that one, or another -o")
    return knots


def _pairs(option: str, given: Pairs) -> dict[str, str] | None:
    pairs = [entry.partition("=") for entry in given or []]
    for entry, (left, _, right) in zip(given or [], pairs):
        if not (left and right):
            example = {"--column": "OURS=THEIRS, option_type=cp_flag", "--where": "COLUMN=VALUE, currency=BTC"}[option]
            raise Mistake(f"{option} {entry}: expected {example}, say")
    return {left: right for left, _, right in pairs} or None


def _numbers(option: str, given: Pairs) -> Any:
    """One number for all expirations, or numbers by expiration."""
    import pandas as pd

    found: dict[Any, float] = {}
    for entry in given or []:
        when, _, number = entry.rpartition("=")
        try:
            found[pd.Timestamp(when) if when else None] = float(number)
        except ValueError:
            raise Mistake(f"{option} {entry}: expected a number, or DATE=NUMBER, 2024-06-21=0.987, say") from None
    if None in found and len(found) > 1:
        raise Mistake(f"{option}: give one number for all expirations, or DATE=NUMBER for each, not both")
    return found.get(None, found) if found else None
