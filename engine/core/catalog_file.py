"""Reads `models.json` and says in one sentence what is wrong with it; writes its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from engine.core.catalog import CATALOG_FORMAT, Catalog, CatalogModel
from engine.core.errors import ConfigError, InputError
from engine.core.files import read_json
from engine.core.gguf_values import printable

PROGRAM_DIR = Path(__file__).resolve().parents[2]
CATALOG_PATH = PROGRAM_DIR / "models.json"
SCHEMA_PATH = PROGRAM_DIR / "docs" / "models.schema.json"

_WAY_OUT = "Correct it, or take models.json from the release again."
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is a key that does not exist",
    "string_type": "must be text in quotation marks",
    "int_type": "must be a whole number without quotation marks",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number without quotation marks",
    "bool_type": "must be true or false",
    "dict_type": "must be an object in braces",
    "model_type": "must be an object in braces",
    "model_attributes_type": "must be an object in braces",
    "tuple_type": "must be a list in brackets",
    "list_type": "must be a list in brackets",
    "too_short": "must not be empty",
    "greater_than_equal": "is too small",
    "greater_than": "is too small",
    "less_than_equal": "is too large",
}
# Patterns of the types, by what a person would call them.
_PATTERNS = {
    "{64}": "must be a SHA-256: 64 digits 0-9 and letters a-f",
    "{40}": "must be a revision: 40 digits 0-9 and letters a-f",
    "/": "must be a repository such as publisher/name",
}


def load_catalog(path: Path = CATALOG_PATH) -> Catalog:
    """The catalogue in a file.

    Raises:
        InputError: the file is missing or cannot be read.
        ConfigError: it has a mistake; the sentence names the place.
    """
    content = read_json(path, CATALOG_FORMAT)
    try:
        # Through JSON: in Python's own types a list is no tuple.
        return Catalog.model_validate_json(json.dumps(content))
    except ValidationError as error:
        key, reason = _explain(error.errors())
        place = f"{key} " if key else ""
        raise ConfigError(
            f"{path.name} has a mistake: {place}{reason}. {_WAY_OUT}",
            code="catalog_mistake",
            params={"file": path.name, "key": key, "reason": reason},
        ) from error


def find_model(catalog: Catalog, model_id: str) -> CatalogModel:
    """The model with this id.

    Raises:
        InputError: there is none; the sentence lists those that there are.
    """
    model = catalog.find(model_id)
    if model is None:
        known = ", ".join(entry.id for entry in catalog.models)
        raise InputError(
            f"There is no model {printable(model_id, 80)}. Choose one of: {known}.",
            code="model_unknown",
            params={"model": model_id, "known": known},
        )
    return model


def bundled_model_path(catalog: Catalog) -> Path:
    """Where the model that comes with the program lies."""
    return PROGRAM_DIR / catalog.bundled.files[0].path


def catalog_schema() -> str:
    """The JSON schema of `models.json`, as it is kept in `docs/models.schema.json`."""
    schema = Catalog.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Models that Stratum can install"
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


def _explain(errors: Sequence[ErrorDetails]) -> tuple[str, str]:
    """Place and reason of the first mistake; a misspelt key comes before what it leaves missing."""
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key = ""
    for part in first["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f"{'.' if key else ''}{part}"
    kind = first["type"]
    if kind == "value_error":
        return key, first["msg"].removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        pattern = str(first.get("ctx", {}).get("pattern", ""))
        words = (text for sign, text in _PATTERNS.items() if sign in pattern)
        return key, next(words, "has letters that are not allowed there")
    reason = _WORDS.get(kind)
    if reason is None:
        reason = f"cannot be used ({first['msg'][:1].lower()}{first['msg'][1:]})"
    return key, reason
