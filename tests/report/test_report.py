"""The report in a browser: no error in its console, figures drawn, the slider moves the field, text is text."""

import base64
import gzip
import json
import os
import re
import shutil

import numpy as np
import pytest

import seqgp
from runs import key, sampler, snapshots
from runs import model as runs_model
from seqgp.io.tables import Labelled
from seqgp.plots.history import history_of
from seqgp.report import report
from seqgp.report.make import _parameters, _stations
from seqgp.report.page import Page
from seqgp.report.sentences import about_latent

MARKUP = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script><b>bold</b>"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of a run whose title, columns and stations are markup."""
    folder = tmp_path_factory.mktemp("report")
    data = [
        Labelled(s.t, s.x, np.where(np.arange(5) == 3, np.nan, s.y), None, [f"{MARKUP}{i}" for i in range(5)])
        for s in snapshots(4)
    ]
    configuration = {
        "data": {"inputs": [f"east {MARKUP}", "north"], "value": f"ozone {MARKUP}", "time": f"day {MARKUP}"},
        "run": {"title": f"Ozone {MARKUP}"},
    }
    run = seqgp.run(sampler(), data, key(), store=folder / "run", configuration=configuration, keep=3)
    return report(run, folder / "report.html")


def test_one_file_small_and_from_nowhere_else(page):
    text = page.read_text()
    assert page.stat().st_size < 3_000_000
    assert unpacked(text, "plotly").count("plotly.js v") == 1
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!data:)', outside)
    assert "<img" not in outside


def unpacked(text, name):
    packed = re.search(f'id="{name}">([^<]*)<', text).group(1)
    return gzip.decompress(base64.b64decode(packed)).decode()


def test_the_map_is_the_posterior_on_a_grid_at_one_scale(page):
    figures = json.loads(unpacked(page.read_text(), "figures"))
    mean, sd = figures["figure-1"], figures["figure-2"]
    for figure in (mean, sd):
        assert [trace["type"] for trace in figure["data"]] == ["heatmap", "scatter"]
        assert figure["layout"]["yaxis"]["scaleanchor"] == "x"
    assert len(figures["figure-3"]["frames"]) == 3  # of four steps, those of which the draws are kept


def test_it_says_what_matters(page):
    text = page.read_text()
    for part in (
        "The latent function now",
        "Its evolution",
        "Some stations",
        "Parameters",
        "in grey",
        "persistence",
        "AR(1)",
        "forecasts",
        "Diagnostics",
        "Settings",
    ):
        assert part in text
    assert "forecast interval" in text


def test_locations_are_places_and_the_same_run_has_the_same_stations(page):
    assert re.search(r"<b>5</b><span>locations, all steps", page.read_text())
    store = seqgp.Store(page.parent / "run")
    history = history_of(store)
    names = [f"station {i}" for i in range(5)]
    steps = [moment._replace(labels=names, x=np.zeros((5, 2))) for moment in history.steps]
    assert _stations(history._replace(steps=steps)) == names[:1]  # of equals the first, not one by chance


@pytest.mark.parametrize("dimension", [1, 3])
def test_captions_speak_of_data_where_they_are_drawn(page, dimension):
    past = history_of(seqgp.Store(page.parent / "run"))
    past = past._replace(steps=[moment._replace(x=np.zeros((5, dimension))) for moment in past.steps])
    assert about_latent(past, False, runs_model()).endswith("; dark dots are data.")
    assert "the data are not drawn" in about_latent(past._replace(beside=False), False, runs_model())


@pytest.mark.parametrize(
    ("on_grid", "model", "said"),
    [
        (True, runs_model(), "dots are the locations"),
        (False, None, "there is no map between them, as the model has code of its own: report(…, model=…)"),
    ],
)
def test_a_map_that_is_missing_is_explained(page, on_grid, model, said):
    caption = about_latent(history_of(seqgp.Store(page.parent / "run")), on_grid, model)
    assert said in caption
    assert "dark dots" not in caption


def test_priors_have_a_column_where_they_are_known(page):
    past = history_of(seqgp.Store(page.parent / "run"))
    for model, there in ((runs_model(), True), (None, False)):
        made = Page("parameters")
        _parameters(made, past, model, None)
        assert ("prior, 95 %" in made.html("")) is there


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium here: `apt-get install chromium chromium-driver` (or `make browser`)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()


@pytest.fixture(scope="module")
def opened(browser, page):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(page.as_uri())
    WebDriverWait(browser, 30).until(lambda b: b.execute_script("return document.body.dataset.drawn"))
    return browser


def test_it_opens_without_an_error_and_draws_all_figures(opened):
    assert opened.get_log("browser") == []
    places = opened.find_elements("css selector", ".figure")
    assert len(places) >= 14
    drawn = opened.execute_script(
        "return [...document.querySelectorAll('.figure')].map(f => f.querySelectorAll('svg.main-svg').length)"
    )
    assert min(drawn) >= 1


def test_markup_is_shown_as_text(opened):
    assert opened.title == f"Ozone {MARKUP}"
    assert opened.find_element("tag name", "h1").text == f"Ozone {MARKUP}"
    assert opened.find_elements("css selector", "img[src=x]") == []
    axis = opened.find_element("css selector", "#figure-1 .xtitle").text
    assert axis == f"east {MARKUP}"[:39] + "…"


def test_the_slider_moves_the_field(opened):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    shown = "return document.querySelector('#figure-3').data[1].text[0]"
    label = "return document.querySelector('#figure-3 .slider-label').textContent"
    before, at = opened.execute_script(shown), opened.execute_script(label)
    rail = opened.find_element("css selector", "#figure-3 .slider-rail-touch-rect")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", rail)
    ActionChains(opened).move_to_element_with_offset(rail, -int(rail.rect["width"] * 0.4), 0).click().perform()
    WebDriverWait(opened, 10).until(lambda b: b.execute_script(shown) != before)
    assert opened.execute_script(label) != at
    assert at.endswith("0.3")


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_a_phone(opened, width):
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        wide = "return document.documentElement.scrollWidth"
        WebDriverWait(opened, 10).until(lambda b: b.execute_script(wide) <= width)
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_report_forecasts_nothing_that_the_run_has_forecast(page, monkeypatch):
    """What the steps have noted is read; the same numbers come from forecasting again, up to the draws."""
    from seqgp.plots import checks

    store = seqgp.Store(page.parent / "run")
    again = checks._each
    monkeypatch.setattr(checks, "predict", lambda *_: pytest.fail("a step was forecast again"))
    found = checks.forecast_checks(store, runs_model())
    assert again is checks._each
    assert [one.t for one in found] == store.times[1:]
    for one, step in zip(found, list(store)[1:]):
        seen = ~np.isnan(step.snapshot.y)
        np.testing.assert_array_equal(np.isnan(one.crps_each), ~seen)
        assert one.crps == pytest.approx(np.nanmean(one.crps_each))
        assert one.log_score == pytest.approx(step.info.scores["log_score"] / seen.sum())
        assert len(one.pit) == seen.sum()


def test_settings_are_words(page):
    text = page.read_text()
    settings = text[text.index("<h2>Settings</h2>") :]
    for python in ("Separable(", "ScaledSigmoid", "dtype", "array(", "None", "Bound("):
        assert python not in settings[: settings.index("</table>")]
