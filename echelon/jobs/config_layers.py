"""Layer a configuration: defaults, then a preset, then a TOML file, then ``--set``, as flat dotted keys.

Says for each value which layer it came from, and turns every mistake into one line that names key, value and what was
wanted. The dials themselves are in ``echelon.config``; pydantic is loaded only when values are checked.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from echelon.config import MIX_PROFILES, REMOVED_FIELDS, REWARD_PROFILES, RunConfig
from echelon.config.presets import get_preset

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

DEFAULT_PRESET = "quickstart"
"""The preset taken where none is named."""

DEFAULT, PRESET, FILE, SET = "default", "preset", "file", "--set"
LAYERS = (DEFAULT, PRESET, FILE, SET)
"""Later layers win."""

LINKED = (("ppo.gamma", "env.gamma"),)
"""Values that must be equal: setting one carries to the other unless that is set as well."""

PROFILES: dict[str, Mapping[str, Any]] = {"env.reward": REWARD_PROFILES, "opponents.mix": MIX_PROFILES}
"""Sections that may be given by the name of a set of values: ``--set env.reward=snap10x``, ``--opponents league``."""

NONE_WORDS = ("none", "null")
"""How ``--set`` and TOML, which has no null, say that a value is absent."""


UNKNOWN = "unexpected_keyword_argument"
"""What pydantic calls a key that is none."""


class ConfigError(ValueError):
    """A configuration that cannot be: unknown preset or key, wrong type, impossible value."""


@dataclass(frozen=True, kw_only=True)
class ResolvedConfig:
    """A whole configuration and where each value came from."""

    config: RunConfig
    values: dict[str, Any]
    """Every value by dotted key."""
    provenance: dict[str, str]
    """Layer of each value that is not a default, by dotted key."""

    def nested(self) -> dict[str, Any]:
        """Return the values as nested dicts, as ``spec.json`` holds them."""
        return unflatten(self.values)


def resolve(
    preset: str | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    base_provenance: Mapping[str, str] | None = None,
    fallback: str = DEFAULT_PRESET,
) -> ResolvedConfig:
    """Return the configuration that the layers make; ``ConfigError`` names what is wrong.

    ``base`` is the nested configuration of an earlier run that takes the place of the preset, with its provenance;
    ``fallback`` is the preset where neither is named.
    """
    from_file = _read_file(file) if file else {}
    of_file = from_file.pop("preset", None)
    if base is not None:
        layered = flatten(without_retired(base))
        provenance = dict(base_provenance or {})
    else:
        layered, provenance = _from_preset(preset or of_file or fallback)
        if of_file and not preset:
            provenance["preset"] = FILE
    for layer, values in ((FILE, from_file), (SET, overrides or {})):
        for key, value in _spread(values, layer).items():
            _check_key(key, value, layer)
            absent = isinstance(value, str) and value.lower() in NONE_WORDS and key in _may_be_absent()
            layered[key] = None if absent else value
            provenance[key] = layer
    _carry_links(layered, provenance, {*from_file, *(overrides or {})})
    config = validate(unflatten(layered), provenance)
    return ResolvedConfig(config=config, values=flatten(dataclasses.asdict(config)), provenance=provenance)


def validate(nested: Mapping[str, Any], provenance: Mapping[str, str] | None = None) -> RunConfig:
    """Return the checked configuration; ``ConfigError`` names key, value and what was wanted in one line."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(without_retired(nested))
    except ValidationError as error:
        raise ConfigError(_explain(error, provenance or {})) from None


def without_retired(nested: Mapping[str, Any]) -> dict[str, Any]:
    """Return an older run's configuration without the dials that are gone."""
    return unflatten({key: value for key, value in flatten(nested).items() if key not in REMOVED_FIELDS})


def schema() -> dict[str, Any]:
    """Return the JSON schema of the whole configuration, descriptions included."""
    return _adapter().json_schema()


def field_descriptions() -> dict[str, str]:
    """Return what every dial does, by dotted key."""
    document = schema()
    return {key: _description(document, key) for key in default_values()}


def _description(document: dict[str, Any], key: str) -> str:
    """Return what the schema says about a dotted key."""
    here: dict[str, Any] = document
    for part in key.split("."):
        here = here.get("properties", {}).get(part, {})
        if target := here.get("$ref"):
            here = {**document["$defs"].get(target.rpartition("/")[2], {}), **here}
    return here.get("description", "")


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return key and value of ``a.b=c``; the value is read as TOML, and as plain text where it is none."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text!r} is no assignment, expected KEY=VALUE such as ppo.lr=1e-4")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested sections as one dict by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{key}."))
        else:
            flat[key] = value
    return flat


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys as nested sections."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, name = key.split(".")
        here = nested
        for section in sections:
            here = here.setdefault(section, {})
        here[name] = value
    return nested


@cache
def default_values() -> Mapping[str, Any]:
    """Return the default of every dial by dotted key; its keys are all the keys there are."""
    return _defaults_of(RunConfig)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``, did you mean 'x'?`` for the nearest of ``names``, empty if none is near."""
    near = get_close_matches(name, list(names), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


@cache
def _may_be_absent() -> frozenset[str]:
    """Return the keys of the dials that have a None; to the others "none" is a word like any."""
    return frozenset(_absent_of(RunConfig))


def _absent_of(cls: type, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, hint in get_type_hints(cls).items():
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            found += _absent_of(hint, f"{prefix}{name}.")
        elif type(None) in get_args(hint):
            found.append(f"{prefix}{name}")
    return found


def _defaults_of(cls: type, prefix: str = "") -> dict[str, Any]:
    hints = get_type_hints(cls)
    flat: dict[str, Any] = {}
    for item in dataclasses.fields(cls):
        key = f"{prefix}{item.name}"
        if dataclasses.is_dataclass(hints[item.name]):
            flat.update(_defaults_of(hints[item.name], f"{key}."))
        elif item.default is not dataclasses.MISSING:
            flat[key] = item.default
        elif item.default_factory is not dataclasses.MISSING:
            flat[key] = item.default_factory()
    return flat


def _from_preset(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        config = get_preset(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    values, defaults = flatten(dataclasses.asdict(config)), default_values()
    return values, {key: PRESET for key, value in values.items() if value != defaults.get(key)}


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return flatten(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigError(f"config file {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {str(path)!r} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config file {str(path)!r} is not TOML: {error}") from None


def _spread(values: Mapping[str, Any], layer: str) -> dict[str, Any]:
    """Return the values with every section that is given by name spelled out, before what is given one by one."""
    spread: dict[str, Any] = {}
    for section, profiles in PROFILES.items():
        name = values.get(section)
        if name is None:
            continue
        if not isinstance(name, str) or name not in profiles:
            raise ConfigError(f"{section} is {name!r} (from {layer}), expected one of {', '.join(profiles)}")
        spread.update(flatten(dataclasses.asdict(profiles[name]), f"{section}."))
    return spread | {key: value for key, value in values.items() if key not in PROFILES}


def _check_key(key: str, value: Any, layer: str) -> None:
    known = default_values()
    if key == "preset":
        raise ConfigError(f"config key 'preset' (from {layer}) is chosen with --preset")
    if key in known:
        if isinstance(value, Mapping):
            raise ConfigError(f"{key} is {value!r} (from {layer}), expected one value: it is no section")
        if isinstance(value, bool) and not isinstance(known[key], bool):
            raise ConfigError(f"{key} is {value!r} (from {layer}), expected {type(known[key]).__name__}")
        return
    if any(name.startswith(f"{key}.") for name in known):
        raise ConfigError(
            f"config key {key!r} (from {layer}) is a section; name a value in it, such as "
            f"{next(name for name in known if name.startswith(f'{key}.'))!r}"
        )
    hint = did_you_mean(key, known)
    if not hint:
        last = key.rpartition(".")[2]
        hint = did_you_mean(last, [name.rpartition(".")[2] for name in known])
        same = [name for name in known if name.rpartition(".")[2] == last]
        hint = f", did you mean {same[0]!r}?" if same else hint
    raise ConfigError(f"config key {key!r} (from {layer}) does not exist{hint}")


def _carry_links(layered: dict[str, Any], provenance: dict[str, str], given: set[str]) -> None:
    for pair in LINKED:
        for key, other in (pair, pair[::-1]):
            if key in given and LAYERS.index(provenance[key]) > LAYERS.index(provenance.get(other, DEFAULT)):
                layered[other], provenance[other] = layered[key], provenance[key]


@cache
def _adapter() -> TypeAdapter[RunConfig]:
    from pydantic import TypeAdapter

    return TypeAdapter(RunConfig)


def _explain(error: ValidationError, provenance: Mapping[str, str]) -> str:
    details = error.errors(include_url=False, include_context=False)
    first = details[0]
    if first["type"] == UNKNOWN:
        return f"config key {'.'.join(str(part) for part in first['loc'])!r} does not exist in this version"
    key = ".".join(str(part) for part in first["loc"])
    # a choice between types reports each of them under the key; only the key is the user's
    while key and key not in default_values() and "." in key:
        key = key.rpartition(".")[0]
    more = len({d["loc"] for d in details}) - 1
    tail = f" (and {more} more)" if more > 0 else ""
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ") + tail
    wanted = first["msg"].removeprefix("Input should be ").removesuffix(".")
    source = provenance.get(key)
    origin = f" (from {source})" if source else ""
    return f"{key} is {first['input']!r}{origin}, expected {wanted}{tail}"
