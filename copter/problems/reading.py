"""Readers of JSON and CSV for all domains, whose errors name the file, the place and the value.

A byte order mark at the beginning of a file, which spreadsheets write, is skipped.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from copter.errors import InputError


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(path, "file", "does not exist") from None
    except (OSError, ValueError) as error:
        raise InputError(path, "file", f"cannot be read as JSON: {error}") from None


class JsonObject:
    """An object of a JSON file, whose fields are read with their types; errors name the field.

    `where`: place of the object in the file; empty if the object is the whole file.
    """

    def __init__(self, path: str | Path, value: object, where: str = "") -> None:
        self.path, self.where = path, where
        if not isinstance(value, dict):
            raise InputError(path, where or "file", f"{value!r:.60}: must be an object")
        self.fields: dict[str, Any] = value

    def error(self, name: str, why: str) -> InputError:
        """Return the error of a field."""
        return InputError(self.path, f"{self.where}.{name}" if self.where else name, why)

    def get(self, name: str, kind: type) -> Any:
        """Return a field of a type; an integer is accepted as a float, and 3.0 as the integer 3."""
        if name not in self.fields:
            raise self.error(name, "is missing")
        value = self.fields[name]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) <= sys.float_info.max else math.inf
        if kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(name, f"{value!r}: must be of type {kind.__name__}")
        return value

    def amount(self, name: str) -> float:
        """Return a field that is a finite number and not negative."""
        value = float(self.get(name, float))
        if not 0.0 <= value < math.inf:
            raise self.error(name, f"{value}: must be finite and not negative")
        return value

    def numbers(self, name: str, count: int) -> list[float]:
        """Return a field that is a list of `count` numbers."""
        values = self.fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise self.error(name, "must be a list of numbers")
        if len(values) != count:
            raise self.error(name, f"has {len(values)} numbers: must be {count}")
        return [float(value) for value in values]

    def record(self, name: str) -> JsonObject:
        """Return a field that is an object."""
        if name not in self.fields:
            raise self.error(name, "is missing")
        return JsonObject(self.path, self.fields[name], f"{self.where}.{name}" if self.where else name)


def read_csv(path: str | Path, required: Sequence[str]) -> Iterator[CsvRow]:
    """Yield the rows of a CSV file with a header; empty lines are skipped.

    `required`: columns that must exist and have a value in every row; other columns are allowed.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        try:
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            for name in required:
                if name not in columns:
                    raise InputError(path, f"line 1, {name}", f"must be a column; the file has {columns}")
            for fields in reader:
                row = CsvRow(path, reader.line_num, fields)
                if None in fields:
                    raise row.error(columns[-1], f"must be last: the header has {len(columns)} columns")
                for name in required:
                    if not row.text(name):
                        raise row.error(name, "is empty")
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"line {reader.line_num + 1}"
            raise InputError(path, where, f"must be CSV text: {error}") from None


class CsvRow:
    """A row of a CSV file, whose fields are read with their types; errors name the line and the field."""

    def __init__(self, path: str | Path, line: int, fields: Mapping[str, str | None]) -> None:
        self.path, self.line, self._fields = path, line, fields

    def error(self, name: str, why: str) -> InputError:
        """Return the error of a field."""
        return InputError(self.path, f"line {self.line}, {name}", why)

    def text(self, name: str) -> str:
        """Return a field as text without surrounding spaces; empty if it does not exist."""
        return (self._fields.get(name) or "").strip()

    def amount(self, name: str) -> float:
        """Return a field that is a finite number and not negative."""
        text = self.text(name)
        try:
            value = float(text)
        except ValueError:
            raise self.error(name, f"{text!r}: must be a number") from None
        if not 0.0 <= value < math.inf:
            raise self.error(name, f"{text}: must be finite and not negative")
        return value

    def whole(self, name: str) -> int:
        """Return a field that is an integer."""
        text = self.text(name)
        try:
            return int(text)
        except ValueError:  # also if it has thousands of digits
            raise self.error(name, f"{text[:40]!r}: must be an integer") from None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a field that is true or false, as a word or as 1 or 0.

        `default`: value if the field is empty or does not exist.
        """
        text = self.text(name).lower()
        if text and text not in ("true", "false", "1", "0"):
            raise self.error(name, f"{self.text(name)!r}: must be true or false")
        return text in ("true", "1") if text else default


def find(data: Path | None, *places: str) -> Path | None:
    """Return the first existing path among some files or folders; None if none exists.

    `data`: folder of real traces, a single file, or None. `places`: possible paths, relative to the folder,
    to its subfolder ``cluster`` or, if it is named ``cluster``, to its parent.
    """
    if data is None:
        return None
    if data.is_file():
        return data if any(data.name == Path(place).name for place in places) else None
    for root in (data, data / "cluster", *((data.parent,) if data.name == "cluster" else ())):
        for place in places:
            if (root / place).exists():
                return root / place
    return None
