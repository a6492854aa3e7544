"""The manifest of a run: which format, versions, key, model and settings its steps belong to.

It carries a checksum of itself, and every step a copy of it: an edit is noticed, a loss can be made good.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import platform
import re
import uuid
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key
from pydantic import TypeAdapter

from seqgp.base.errors import one_line
from seqgp.base.identity import HOOK, describe, undescribed, without_code
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import read_own, write_json
from seqgp.io.layout import MANIFEST as NAME
from seqgp.io.layout import step_files
from seqgp.io.specification import ModelSpec, specify
from seqgp.model import Model
from seqgp.samplers.base import Sampler
from seqgp.samplers.validation import digest_of_names, model_digest

FORMAT = 2  # raised whenever a file of a run changes its meaning; MIGRATIONS brings older ones up to it
SUM = "sha256"


def _from_format_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 had no checksum, and knew functions by their bytecode, which another Python does not repeat."""
    parts = content.get("model")
    if isinstance(parts, dict):
        parts = {name: without_code(text) if isinstance(text, str) else text for name, text in parts.items()}
    return {**content, "format": 2, "model": parts, "by_names": True}


MIGRATIONS: dict[int, Any] = {1: _from_format_1}


class Manifest(NamedTuple):
    """What is the same for all steps of a run."""

    format: int
    run: str  # an identifier, repeated in every step: a foreign file is recognised by it
    created: str
    versions: dict[str, str]
    dtype: str
    key: dict[str, Any]
    model: dict[str, str]
    sampler: dict[str, str]
    specification: dict[str, Any] | None = None  # of a ready-made model
    configuration: dict[str, Any] | None = None  # what `seqgp fit` was given
    by_names: bool = False  # whether functions in ``model`` are known by their names alone: a run of version 0.1

    def random_key(self) -> Key[Array, ""]:
        """The key that the run was started with; steps fold their number into it."""
        data = jax.device_put(np.asarray(self.key["data"], dtype=np.uint32))
        return jax.random.wrap_key_data(data, impl=self.key["implementation"])

    def section(self, name: str) -> dict[str, Any]:
        """A section of what `seqgp fit` was given; empty where a run of one's own remembers something else there."""
        found = (self.configuration or {}).get(name)
        return found if isinstance(found, dict) else {}

    def build_model(self) -> Model | None:
        """The model, where it is made of ready-made parts."""
        return None if self.specification is None else ModelSpec.model_validate(self.specification).build()

    def fingerprint_in_format_1(self) -> str:
        """What a state that was stored in format 1 is known by now."""
        model = self.build_model()
        return digest_of_names(self.model) if model is None else model_digest(model)


def new_manifest(sampler: Sampler, key: object, configuration: dict[str, Any] | None) -> Manifest:
    """The manifest of a run that begins."""
    return Manifest(
        format=FORMAT,
        run=uuid.uuid4().hex,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
        dtype="float64",
        key=_key_words(key),
        model=sampler.model.fingerprint(),
        sampler=settings_of(sampler),
        specification=specify(sampler.model),
        configuration=configuration,
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a run, with its checksum."""
    write_json(folder / NAME, sealed(manifest))


def sealed(manifest: Manifest) -> dict[str, Any]:
    """A manifest as it is written: with its checksum."""
    content = {**manifest._asdict(), "format": FORMAT}
    return {**content, SUM: _checksum(content)}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run, verified and brought to the present format."""
    path = folder / NAME
    try:
        return manifest_from(json.loads(read_own(path)), path)
    except (FileNotFoundError, NotADirectoryError) as error:
        steps = len(step_files(folder))
        if steps:
            raise DamagedError(
                f"{path}: is gone, but its {steps} steps are there; `seqgp check {folder} --repair` restores it from "
                "them (steps of version 0.1 hold no copy: restore it from a backup)"
            ) from error
        raise StoreError(f"{folder}: no run here (there is no {NAME}); check the path, or make one first") from error
    except IsADirectoryError as error:
        raise DamagedError(f"{path}: is a folder, not the manifest of a run; {REMEDY}") from error
    except OSError as error:
        if path.is_symlink() or not path.is_file():
            raise DamagedError(f"{path}: a link or a device, not the manifest of a run; {REMEDY}") from error
        raise StoreError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DamagedError(f"{path}: not the manifest of a run ({error}); {REMEDY}") from error


REMEDY = "`seqgp check RUN --repair` restores it from the steps, or take it from a backup"


def is_sealed(folder: Path) -> bool:
    """Whether a manifest that was read before has a checksum."""
    return SUM in json.loads(read_own(folder / NAME))


def manifest_from(content: object, path: Path) -> Manifest:
    """A manifest from what was read: checksum, format and every entry are looked at before anything is used."""
    if not isinstance(content, dict) or "format" not in content:
        raise DamagedError(f"{path}: not the manifest of a run; {REMEDY}")
    content = dict(content)
    written, given = content["format"], content.pop(SUM, None)
    if given is not None and given != _checksum(content):
        raise DamagedError(f"{path}: its checksum is wrong: it was edited, or is corrupted; {REMEDY}")
    if not isinstance(written, int) or isinstance(written, bool) or written > FORMAT:
        raise StoreError(
            f"{path}: format {written} is later than this version of seqgp reads ({FORMAT}); upgrade seqgp"
        )
    if given is None and written >= FIRST_WITH_SUM:
        raise DamagedError(f"{path}: its checksum is missing; {REMEDY}")
    while written < FORMAT:
        if written not in MIGRATIONS:
            raise StoreError(f"{path}: format {written} was never released, so it cannot be read; run again from data")
        content = MIGRATIONS[written](content)
        written += 1
    try:
        manifest = _ENTRIES.validate_python(content)
        manifest.random_key()
        if "PaperCarry" in manifest.sampler.get("carry", ""):
            del manifest.sampler["carry"]  # a setting of versions up to 0.2: the paper's is the only one
        if manifest.specification is not None:
            ModelSpec.model_validate(manifest.specification)
    except (ValueError, TypeError) as error:
        why = one_line(error, 160)
        if given is not None:  # as it was written, by a version that knows more
            raise StoreError(f"{path}: made by another version of seqgp ({why}); read it with that one") from error
        raise DamagedError(f"{path}: not the manifest of a run ({why}); {REMEDY}") from error
    return manifest


FIRST_WITH_SUM = 2
_ENTRIES = TypeAdapter(Manifest)


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_same(folder: Path, manifest: Manifest, sampler: Sampler, key: object) -> None:
    """Raise, saying what differs, unless a run can be continued with this sampler and key."""
    if re.search("JointCarry|LevelCarry", manifest.sampler.get("carry", "")):
        raise StoreError(
            f"{folder}: begun with SequentialSampler(carry={manifest.sampler['carry']}), which this version does not "
            "have: the run can be read and predicted from; to go on, give all data to OnlineSampler in another folder"
        )
    by_type = knows_objects_by_type(manifest, sampler)
    if not by_type:
        _compare(folder, "model", *_fingerprints(manifest, sampler.model))
        _compare(folder, "sampler", manifest.sampler, settings_of(sampler))
    if unseen := unseen_objects(sampler):
        raise StoreError(f"{folder}: {unseen}, so nobody can tell whether they are those of the run; {HOW_TO_SEE}")
    if key is not None and _key_words(key) != manifest.key:
        raise StoreError(
            f"{folder}: the run was started with another key (of another seed); pass the same, or none to go on"
        )
    if by_type:
        warnings.warn(
            f"{folder}: begun with seqgp 0.2, which knew objects and what a function looks up in its module by their "
            "names: these agree with the model's, their contents cannot be compared; from now on they are",
            stacklevel=3,
        )
    if manifest.by_names and manifest.specification is None:
        warnings.warn(
            f"{folder}: begun with seqgp 0.1, which knew functions of one's own by bytecode: their names agree with "
            "the model's, their code cannot be compared; from now on it is",
            stacklevel=3,
        )
    changed = {name: v for name, v in _versions().items() if manifest.versions.get(name) != v}
    if changed:
        was = ", ".join(f"{name} {manifest.versions.get(name)}, now {v}" for name, v in changed.items())
        warnings.warn(f"{folder}: begun with {was}: the draws stay valid, but may differ in bits", stacklevel=3)


def knows_objects_by_type(manifest: Manifest, sampler: Sampler) -> bool:
    """Whether stored model and settings are these as version 0.2 wrote them, and not as they are written now."""
    if manifest.by_names:
        return False
    before, ready_made = (manifest.model, manifest.sampler), manifest.build_model()
    if ready_made is not None:  # said in words, and made anew
        before = (ready_made.fingerprint_in_version(2), manifest.sampler)
    now, then = ((sampler.model.fingerprint_in_version(version), settings_of(sampler, version)) for version in (3, 2))
    return before != now and before == then


HOW_TO_SEE = (
    f"give such a class a method {HOOK} that returns a text with all that its results depend on (or a repr with it)"
)


def unseen_objects(sampler: Sampler) -> str:
    """What is to be said of objects in model or sampler whose contents cannot be seen; empty where there are none."""
    others = {name: value for name, value in vars(sampler).items() if not name.startswith("_")}
    unknown = undescribed((sampler.model, others))
    return f"the contents of objects of class {', '.join(unknown)} cannot be seen" if unknown else ""


def _fingerprints(manifest: Manifest, model: Model) -> tuple[dict[str, str], dict[str, str]]:
    """Of the stored model and of another, in the same words: those of a ready-made model are made anew."""
    now, stored = model.fingerprint(), manifest.build_model()
    if stored is not None:
        return stored.fingerprint(), now
    if not manifest.by_names:
        return manifest.model, now
    return manifest.model, {name: without_code(text) for name, text in model.fingerprint_in_version(2).items()}


def _compare(folder: Path, what: str, before: dict[str, str], now: dict[str, str]) -> None:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            raise StoreError(
                f"{folder}: the run was made with another {what}: {name} was {before.get(name)}, now "
                f"{now.get(name)}; use the same one, or another folder"
            )


@functools.cache
def _versions() -> dict[str, str]:
    found = {name: version(name) for name in ("seqgp", "jax", "jaxlib", "numpy")}
    return found | {"python": platform.python_version()}


SETTINGS_BEFORE = {"paths": 0, "robust": "flag", "false_alarms": 0.1}


def as_begun(folder: Path, manifest: Manifest, sampler: Sampler) -> Sampler:
    """The sampler that goes on with a run: without paths where the run was begun without, as all were before 0.3."""
    if getattr(sampler, "paths", None) != "auto" or "paths" in manifest.sampler:
        return sampler
    warnings.warn(
        f"{folder}: begun without paths=, and goes on so (paths=0: EP of each snapshot alone); for corrected weights, "
        "give all data to a run in another folder",
        stacklevel=3,
    )
    begun = copy.copy(sampler)
    vars(begun)["paths"] = 0
    return begun


def settings_of(sampler: Sampler, in_version: int = 3) -> dict[str, str]:
    """The settings of a sampler, by name, as texts, but for those at what samplers did before they had them."""
    others = {name: value for name, value in vars(sampler).items() if name not in ("model", "fingerprint")}
    for name, before in SETTINGS_BEFORE.items():
        if others.get(name) == before:
            del others[name]
    return {name: describe(value, in_version) for name, value in others.items() if not name.startswith("_")}


def _key_words(key: Any) -> dict[str, Any]:
    try:
        typed = key if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)
        data = np.asarray(jax.random.key_data(typed))
        if typed.shape:
            raise ValueError(f"its shape is {typed.shape}")
    except (AttributeError, TypeError, ValueError) as error:
        raise StoreError(f"key: expected one random key, jax.random.key(0) say ({error})") from error
    return {"data": data.tolist(), "implementation": str(jax.random.key_impl(typed))}
