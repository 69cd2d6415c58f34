"""Readers of JSON and CSV that every domain shares: errors name file, place and value.

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
    """An object of a JSON file, whose fields are read with their types or refused by name.

    `where`: place of the object in the file; by default it is all of it.
    """

    def __init__(self, path: str | Path, value: object, where: str = "") -> None:
        self.path, self.where = path, where
        if not isinstance(value, dict):
            raise InputError(path, where or "file", f"must be an object, is {value!r:.60}")
        self.fields: dict[str, Any] = value

    def error(self, name: str, why: str) -> InputError:
        """Return the error of a field."""
        return InputError(self.path, f"{self.where}.{name}" if self.where else name, why)

    def get(self, name: str, kind: type) -> Any:
        """Return a field of a type; a whole number stands for a float, and 3.0 for the whole number 3."""
        if name not in self.fields:
            raise self.error(name, "is missing")
        value = self.fields[name]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) <= sys.float_info.max else math.inf
        if kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(name, f"{value!r} is no {kind.__name__}")
        return value

    def amount(self, name: str) -> float:
        """Return a field that is a finite number, not negative."""
        value = float(self.get(name, float))
        if not 0.0 <= value < math.inf:
            raise self.error(name, f"{value} must be finite and not negative")
        return value

    def numbers(self, name: str, count: int) -> list[float]:
        """Return a field that is a list of so many numbers."""
        values = self.fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise self.error(name, "must be a list of numbers")
        if len(values) != count:
            raise self.error(name, f"has {len(values)} numbers instead of {count}")
        return [float(value) for value in values]

    def record(self, name: str) -> JsonObject:
        """Return a field that is an object."""
        if name not in self.fields:
            raise self.error(name, "is missing")
        return JsonObject(self.path, self.fields[name], f"{self.where}.{name}" if self.where else name)


def read_csv(path: str | Path, required: Sequence[str]) -> Iterator[CsvRow]:
    """Iterate over the rows of a CSV file with a header; empty lines are passed over.

    `required`: columns that must be there, with a value in every row; there may be others.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        try:
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            for name in required:
                if name not in columns:
                    raise InputError(path, f"line 1, {name}", f"no such column; the file has {columns}")
            for fields in reader:
                row = CsvRow(path, reader.line_num, fields)
                if None in fields:
                    raise row.error(columns[-1], f"more follows it: the header has {len(columns)} columns")
                for name in required:
                    if not row.text(name):
                        raise row.error(name, "is empty")
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"line {reader.line_num + 1}"
            raise InputError(path, where, f"not a CSV of text: {error}") from None


class CsvRow:
    """A row of a CSV file, whose fields are read with their types or refused by name and line."""

    def __init__(self, path: str | Path, line: int, fields: Mapping[str, str | None]) -> None:
        self.path, self.line, self._fields = path, line, fields

    def error(self, name: str, why: str) -> InputError:
        """Return the error of a field."""
        return InputError(self.path, f"line {self.line}, {name}", why)

    def text(self, name: str) -> str:
        """Return a field as it stands; empty if it is not there."""
        return (self._fields.get(name) or "").strip()

    def amount(self, name: str) -> float:
        """Return a field that is a finite number, not negative."""
        text = self.text(name)
        try:
            value = float(text)
        except ValueError:
            raise self.error(name, f"{text!r} is no number") from None
        if not 0.0 <= value < math.inf:
            raise self.error(name, f"{text} must be finite and not negative")
        return value

    def whole(self, name: str) -> int:
        """Return a field that is a whole number."""
        text = self.text(name)
        try:
            return int(text)
        except ValueError:  # of thousands of digits too
            raise self.error(name, f"{text[:40]!r} is no whole number") from None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a field that is true or false, in words or as 1 or 0.

        `default`: what it is if it is empty or not there.
        """
        text = self.text(name).lower()
        if text and text not in ("true", "false", "1", "0"):
            raise self.error(name, f"{self.text(name)!r} is neither true nor false")
        return text in ("true", "1") if text else default


def find(data: Path | None, *places: str) -> Path | None:
    """First of some files or folders that is there; None without a folder, or if it has none of them.

    `data`: folder of real traces, or a file itself. `places`: where it may lie, seen from the folder, from
    the folder ``cluster`` in it or, if it is that folder itself, from the one around.
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
