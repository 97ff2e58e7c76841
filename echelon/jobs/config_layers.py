"""Resolves a configuration from layers of dotted keys: defaults, preset, TOML file, ``--set``.

Records the layer of each value; an error is one line with key, value and expectation. The fields are declared in
``echelon.config``; pydantic is imported only for validation.
"""

import dataclasses
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from echelon.config import MIX_PROFILES, RunConfig
from echelon.config.checks import range_text, ranges_of, type_check
from echelon.config.presets import get_preset
from echelon.files import reason_of
from echelon.state_files import read_bounded
from echelon.validation import OWN_MESSAGE, UNKNOWN, expectation, validator

if TYPE_CHECKING:
    from pydantic import ValidationError

DEFAULT_PRESET = "quickstart"
DEFAULT, PRESET, FILE, SET = "default", "preset", "file", "--set"
LAYERS = (DEFAULT, PRESET, FILE, SET)
LINKED = (("ppo.gamma", "env.gamma"),)
"""Pairs of equal values: setting one sets the other, unless that is set as well."""
PROFILES: dict[str, Mapping[str, Any]] = {"opponents.mix": MIX_PROFILES}
"""Sections that can be set by the name of a profile: ``--opponents league``."""
NONE_WORDS = ("none", "null")
"""Spellings of an absent value in ``--set`` and TOML, which has no null."""
OUT_OF_RANGE = ("greater_than_equal", "less_than_equal")
MAX_FILE_BYTES = 64 << 10
"""Largest configuration file; one with every field has some 10 KiB."""
MAX_LINE_DOTS = 100
"""Most dots in a line of a configuration: the parser's memory is quadratic in the parts of a dotted key."""
MAX_KEY_CHARS = 256
"""Longest dotted key; its parts are repeated in every key below."""


class ConfigError(ValueError):
    """Invalid configuration: unknown preset or key, wrong type, value out of range."""


@dataclass(frozen=True, kw_only=True)
class ResolvedConfig:
    """A complete configuration and the layer of each value."""

    config: RunConfig
    values: dict[str, Any]
    provenance: dict[str, str]
    """Layer of each value that is not a default, by dotted key."""
    named: frozenset[str] = frozenset()
    """Keys that a file or ``--set`` gives now, unlike those of an earlier run."""

    def nested(self) -> dict[str, Any]:
        """Return the values as nested dicts, the form of ``spec.json``."""
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
    """Return the configuration of the layers; ``ConfigError`` names what is invalid.

    ``base`` is the nested configuration of an earlier run, used instead of a preset, with its provenance; ``fallback``
    is the preset where none is named.
    """
    from_file = _read_file(file) if file else {}
    file_preset = from_file.pop("preset", None)
    if base is not None:
        layered = flatten(base)
        provenance = dict(base_provenance or {})
    else:
        layered, provenance = _from_preset(preset or file_preset or fallback)
        if file_preset and not preset:
            provenance["preset"] = FILE
    for layer, values in ((FILE, from_file), (SET, overrides or {})):
        for key, value in _expand_profiles(values, layer).items():
            _check_key(key, value, layer)
            is_optional = type(None) in field_types()[key]
            absent = is_optional and isinstance(value, str) and value.lower() in NONE_WORDS
            layered[key] = None if absent else value
            provenance[key] = layer
    named: frozenset[str] = frozenset((*from_file, *(overrides or {})))
    _apply_links(layered, provenance, named)
    config = validate(unflatten(layered), provenance, named)
    values = flatten(dataclasses.asdict(config))
    return ResolvedConfig(config=config, values=values, provenance=provenance, named=named)


def validate(
    nested: Mapping[str, Any], provenance: Mapping[str, str] | None = None, named: Collection[str] = ()
) -> RunConfig:
    """Return the validated configuration. ``ConfigError`` names of two linked keys the one in ``named``."""
    from pydantic import ValidationError

    try:
        return validator(RunConfig).validate_python(nested)
    except ValidationError as error:
        raise ConfigError(_explain(error, provenance or {}, named)) from None


def schema() -> dict[str, Any]:
    return validator(RunConfig).json_schema()


def field_descriptions() -> dict[str, str]:
    document = schema()
    return {key: _description(document, key) for key in default_values()}


def expected_values() -> dict[str, str]:
    """Return what every field accepts by dotted key, as text: its type, and its range where it has one."""
    texts = {}
    for key, (types, span) in _fields(RunConfig).items():
        texts[key] = " or ".join("none" if arm is NoneType else type_check(arm)[1] for arm in types)
        if span:
            texts[key] += f", {range_text(*span)}"
    return texts


def _description(document: dict[str, Any], key: str) -> str:
    node: dict[str, Any] = document
    for part in key.split("."):
        node = node.get("properties", {}).get(part, {})
        if target := node.get("$ref"):
            node = {**document["$defs"].get(target.rpartition("/")[2], {}), **node}
    return " ".join(node.get("description", "").split())


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return key and value of ``a.b=c``; the value is parsed as TOML, else taken as text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text!r} is no assignment, expected KEY=VALUE; try ppo.lr=1e-4")
    try:
        return key.strip(), parse_toml(f"value = {value.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), value.strip()


def parse_toml(text: str) -> dict[str, Any]:
    """Return the sections of a TOML text; ``ConfigError`` for too many dots, ``TOMLDecodeError`` for other text."""
    for number, line in enumerate(text.split("\n"), 1):
        if (dots := line.count(".")) > MAX_LINE_DOTS:
            raise ConfigError(f"line {number} has {dots} dots, expected at most {MAX_LINE_DOTS}")
    return tomllib.loads(text)


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested sections as a flat dict by dotted key, cut at ``MAX_KEY_CHARS``: no field has such a key."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        key = f"{prefix}{name}"
        if len(key) > MAX_KEY_CHARS:
            key = f"{key[:MAX_KEY_CHARS]}…"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{key}."))
        else:
            flat[key] = value
    return flat


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, name = key.split(".")
        node = nested
        for section in sections:
            node = node.setdefault(section, {})
            if not isinstance(node, dict):
                raise ConfigError(f"config key {key!r} is in {section!r}, which is a value, expected a section")
        node[name] = value
    return nested


@cache
def default_values() -> Mapping[str, Any]:
    return flatten(dataclasses.asdict(RunConfig()))


@cache
def field_types() -> Mapping[str, tuple[Any, ...]]:
    """Return the types that every field accepts by dotted key, None included."""
    return {key: types for key, (types, _) in _fields(RunConfig).items()}


@cache
def _fields(cls: type, prefix: str = "") -> Mapping[str, tuple[tuple[Any, ...], tuple[float, float] | None]]:
    """Return types and range of every field by dotted key; None where it has no range."""
    found = {}
    for name, hint in get_type_hints(cls).items():
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            found.update(_fields(hint, f"{prefix}{name}."))
        else:
            types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            found[prefix + name] = types, ranges_of(cls).get(name)
    return found


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``, did you mean 'x'?`` for the nearest of ``names``, empty where none is similar."""
    near = get_close_matches(name, list(names), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _from_preset(name: object) -> tuple[dict[str, Any], dict[str, str]]:
    if not isinstance(name, str):
        raise ConfigError(f"preset is {name!r:.80}, expected a name, such as {DEFAULT_PRESET!r}")
    try:
        config = get_preset(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    values, defaults = flatten(dataclasses.asdict(config)), default_values()
    return values, {key: PRESET for key, value in values.items() if value != defaults.get(key)}


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return flatten(parse_toml(read_bounded(path, MAX_FILE_BYTES).decode("utf-8")))
    except FileNotFoundError:
        reason = "does not exist"
    except UnicodeDecodeError:
        reason = "is no text in UTF-8"
    except RecursionError:
        reason = "is nested too deeply, expected sections of fields"
    except tomllib.TOMLDecodeError as error:
        reason = f"is not TOML: {error}"
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {reason_of(error)}"
    raise ConfigError(f"config file {str(path)!r} {reason}")


def _expand_profiles(values: Mapping[str, Any], layer: str) -> dict[str, Any]:
    """Return the values with profile names expanded to the values of their section; single values override them."""
    expanded: dict[str, Any] = {}
    for section, profiles in PROFILES.items():
        name = values.get(section)
        if name is None:
            continue
        if not isinstance(name, str) or name not in profiles:
            raise ConfigError(f"{section} is {name!r} (from {layer}), expected one of {', '.join(profiles)}")
        expanded.update(flatten(dataclasses.asdict(profiles[name]), f"{section}."))
    return expanded | {key: value for key, value in values.items() if key not in PROFILES}


def _check_key(key: str, value: Any, layer: str) -> None:
    known = default_values()
    if key == "preset":
        raise ConfigError(f"config key 'preset' (from {layer}) cannot be set here; try --preset")
    if key in known:
        if isinstance(value, Mapping):
            raise ConfigError(f"{key} is {value!r} (from {layer}), expected one value: it is no section")
        if isinstance(value, bool) and not isinstance(known[key], bool):
            raise ConfigError(f"{key} is {value!r} (from {layer}), expected {type(known[key]).__name__}")
        return
    if below := [name for name in known if name.startswith(f"{key}.")]:
        tip = f"expected a field of it; try {below[0]!r}"
        raise ConfigError(f"config key {key!r} (from {layer}) is a section, {tip}")
    by_last, last = {name.rpartition(".")[2]: name for name in reversed(list(known))}, key.rpartition(".")[2]
    same = f", did you mean {by_last[last]!r}?" if last in by_last else did_you_mean(last, by_last)
    hint = did_you_mean(key, known) or same
    raise ConfigError(f"config key {key!r} (from {layer}) does not exist{hint}")


def _apply_links(layered: dict[str, Any], provenance: dict[str, str], changed: frozenset[str]) -> None:
    for pair in LINKED:
        for key, other in (pair, pair[::-1]):
            if key in changed and LAYERS.index(provenance[key]) > LAYERS.index(provenance.get(other, DEFAULT)):
                layered[other], provenance[other] = layered[key], provenance[key]


def _explain(error: "ValidationError", provenance: Mapping[str, str], named: Collection[str]) -> str:
    found = error.errors(include_url=False, include_context=False)
    # of two linked keys the one that the user gave is reported
    details = sorted(found, key=lambda detail: _key_of(detail) not in named)
    first = details[0]
    if first["type"] in UNKNOWN:
        return f"config key {'.'.join(str(part) for part in first['loc'])!r} does not exist in this version"
    key = ".".join(str(part) for part in first["loc"])
    # a union reports each of its types below the key; only the key itself is known to the user
    while key and key not in default_values() and "." in key:
        key = key.rpartition(".")[0]
    linked = {other: given for pair in LINKED for given, other in (pair, pair[::-1]) if given in named}
    more = len({linked.get(at := _key_of(detail), at) for detail in details}) - 1
    tail = f" (and {more} more)" if more > 0 else ""
    expected = expectation(first["msg"])
    if first["type"] in OWN_MESSAGE:
        return expected + tail
    if first["type"] in OUT_OF_RANGE:
        low, high = _fields(RunConfig)[key][1] or (-math.inf, math.inf)
        expected = range_text(low, high)
    source = provenance.get(key)
    origin = f" (from {source})" if source else ""
    return f"{key} is {first['input']!r}{origin}, expected {expected}{tail}"


def _key_of(details: Mapping[str, Any]) -> str:
    """Return the key of an error; the message of a section's check begins with it."""
    if details["type"] in OWN_MESSAGE:
        return expectation(details["msg"]).partition(" ")[0]
    return ".".join(map(str, details["loc"]))
