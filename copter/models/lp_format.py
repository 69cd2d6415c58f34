"""Reader of files in the LP format of CPLEX.

HiGHS has a reader, too, and the tests compare the results of both. But HiGHS' reader accepts neither rows
with two bounds nor variables on the right of a relation. It reports no line numbers, and drops signs, numbers
and objectives that it cannot parse. An example of a file:

    Minimize                    or Maximize
     cost: 2 x + 3 y - z + 4    a name is not needed
    Subject To
     a: 1 <= x + y <= 5
     b: x - 2 >= y + z
    Bounds
     x <= 4                     or -1 <= x <= 4, or x free
    General
     z                          integral; Binary: 0 or 1
    End

A name may have indices in brackets without blanks, as in x[0,1], and a / before a letter. A row ends with its
line, unless a sign or a relation ends this line or begins the next line.

CPLEX also allows names such as ``,5`` and ``(x``. But nearly all names of this kind result from a decimal
comma, a thousands separator, a parenthesis or another language. The reader rejects such names: otherwise
x >= 2,5 would mean x - 2 (,5) >= 0.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass, field

from copter.arrays import INFINITE
from copter.errors import InputError
from copter.models.linear_program import LinearProgram
from copter.models.text import Source, is_number, linear_program

_SECTIONS: dict[str, str] = {
    **dict.fromkeys(("minimize", "minimise", "minimum", "min"), "minimize"),
    **dict.fromkeys(("maximize", "maximise", "maximum", "max"), "maximize"),
    **dict.fromkeys(("subject to", "such that", "st", "s.t.", "st."), "rows"),
    **dict.fromkeys(("bounds", "bound"), "bounds"),
    **dict.fromkeys(("general", "generals", "gen", "integer", "integers", "int"), "general"),
    **dict.fromkeys(("binary", "binaries", "bin"), "binary"),
    **dict.fromkeys(("semi-continuous", "semis", "semi"), "semi"),
    **dict.fromkeys(("sos", "sos1", "sos2"), "sos"),
    "end": "end",
}
_BEYOND = {"semi": "semi-continuous columns", "sos": "special ordered sets"}
_HEADER = re.compile(
    r"\s*(" + "|".join(sorted((re.escape(word).replace("\\ ", r"\s+") for word in _SECTIONS), key=len)[::-1])
    + r")(?=\s|$)(?!\s*:)", re.IGNORECASE,
)  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<relation>[<>]=?|=[<>]?)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\s\d.+\-*/^<>=:\[\]\\]"
    r"(?:[^\s+\-*/^<>=:\[\]\\]|\[[^\s\[\]\\]*\]|/(?=[^\s\d.+\-*/^<>=:\[\]\\]))*)|(?P<mark>.))",
    re.ASCII,
)
_ODD_ENDS = ",;"
_PAIRS = (("(", ")"), ("{", "}"))
_PLAIN_NUMBER = "a number has a decimal point and no separators, for example 1234.5"
_RELATION = {"<": "<=", "=<": "<=", ">": ">=", "=>": ">="}


def _wrong_name(word: str) -> str:
    """Return the reason why a word cannot be a name; empty for a valid name."""
    if word[0] in _ODD_ENDS or word[-1] in _ODD_ENDS:
        return f"a name must not begin or end with a comma or a semicolon; {_PLAIN_NUMBER}"
    if word[0] in "(){}" or any(word.count(left) != word.count(right) for left, right in _PAIRS):
        return "parentheses must be balanced within a name, and must not begin it"
    for letter in word:
        if not (letter.isascii() or letter.isalnum() or unicodedata.category(letter)[0] == "M"):
            return f"a name must not have the character {letter!r}"
    if not (word[0].isascii() or word[0].isalpha()):
        return f"a name must not begin with {word[0]!r}"
    return "" if any(letter.isalnum() or letter == "_" for letter in word) else "a name must have a letter"


@dataclass
class _Token:
    kind: str
    text: str
    line: int
    first: bool


@dataclass
class _Sum:
    """Sum of terms: coefficients by variable, and a constant."""

    terms: dict[str, float] = field(default_factory=dict)
    constant: float = 0.0


@dataclass
class _Statement:
    """Statement: sums, and the relations between them."""

    name: str
    line: int
    sums: list[_Sum]
    relations: list[str]


def read(source: Source) -> LinearProgram:
    """Return the linear program in the lines of an LP file; raise InputError with an invalid line."""
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.section = ""
        self.maximize = False
        self.objective = _Sum()
        self.rows: list[tuple[_Statement, dict[str, float], float, float]] = []
        self.names: dict[str, int] = {}
        self.columns: dict[str, None] = {}
        self.bounds: dict[str, list[tuple[float, int] | None]] = {}
        self.integral: dict[str, int] = {}
        self.binary: dict[str, int] = {}

    def read(self) -> LinearProgram:
        tokens: list[_Token] = []
        seen: list[str] = []
        for number, line in enumerate(self.source.lines, 1):
            text = line.partition("\\")[0]
            header = _HEADER.match(text)
            if header is not None:
                self._section(tokens, number)
                tokens = []
                self.section = _SECTIONS[" ".join(header[1].lower().split())]
                if self.section == "end":
                    break
                self._begin(seen, number)
                text = text[header.end() :]
            tokens += self._tokens(text, number)
            if tokens and not self.section:
                raise self._error(number, f"{tokens[0].text!r} is neither Minimize nor Maximize")
        else:
            if not seen:
                raise self._error(1, "neither Minimize nor Maximize is in the file")
            last = len(self.source.lines)
            why = "the file ends without End; it may be truncated"
            self.source.doubt(last, why, "the lines up to its end count")
            self._section(tokens, last)
        if not seen:
            raise self._error(1, "neither Minimize nor Maximize is in the file")
        return self._program()

    def _error(self, line: int, why: str) -> InputError:
        return self.source.error(line, why)

    def _begin(self, seen: list[str], line: int) -> None:
        kind = "objective" if self.section in ("minimize", "maximize") else self.section
        if not seen and kind != "objective":
            raise self._error(line, "the file does not begin with Minimize or Maximize")
        if kind in seen and kind in ("objective", "rows"):
            raise self._error(line, f"a second {'objective' if kind == 'objective' else 'Subject To'}")
        seen.append(kind)
        self.maximize = self.maximize or self.section == "maximize"

    def _tokens(self, text: str, line: int) -> list[_Token]:
        found: list[_Token] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            assert match is not None and match.lastgroup is not None  # "." matches any other character
            kind, word = match.lastgroup, match[match.lastgroup]
            if kind == "mark" and word in "[]^*/":
                raise self._error(line, "has a quadratic term or a product; copter solves linear programs")
            if kind == "mark" and word not in "+-:":
                raise self._error(line, f"{text[match.start() :].strip()!r} is not understood")
            if kind == "name" and is_number(word):  # inf, and NaN
                word = str(self.source.number(line, word))
                kind = "number"
            if kind == "name" and (why := _wrong_name(word)):
                raise self._error(line, f"{text[: match.end()].split()[-1]!r}: {why}")
            if found and found[-1].kind == "number" and kind in ("number", "name"):
                joined = match.start(kind) == place
                if kind == "number" or (joined and not word[0].isalpha()):
                    between = "" if joined else " "
                    shown = f"'{found[-1].text}{between}{word}'"
                    raise self._error(line, f"{shown} is not a number; {_PLAIN_NUMBER}")
            found.append(_Token(kind, _RELATION.get(word, word), line, not found))
            place = match.end()
        return found

    def _section(self, tokens: list[_Token], line: int) -> None:
        """Read the tokens of the section that ends."""
        if self.section in _BEYOND and tokens:
            raise self._error(tokens[0].line, f"has {_BEYOND[self.section]}; copter solves linear programs")
        if self.section in ("general", "binary"):
            kinds = self.integral if self.section == "general" else self.binary
            for token in tokens:
                if token.kind != "name":
                    raise self._error(token.line, f"{token.text!r} is not the name of a variable")
                self._known(token.text, token.line)
                kinds[token.text] = token.line
            return
        place = 0
        while place < len(tokens):
            statement, place = self._statement(tokens, place)
            if self.section in ("minimize", "maximize"):
                if statement.relations or place < len(tokens):
                    at = tokens[min(place, len(tokens) - 1)]
                    raise self._error(at.line, f"the objective is not a sum of terms at {at.text!r}")
                self.objective = statement.sums[0]
                self.columns.update(dict.fromkeys(self.objective.terms))
            elif self.section == "rows" and not statement.relations:
                before = f" before {tokens[place].text!r}" if place < len(tokens) else ""
                raise self._error(tokens[place - 1].line, f"the row has no <=, >= or ={before}")
            elif self.section == "rows":
                self._row(statement)
            else:
                self._bound(statement)

    def _statement(self, tokens: list[_Token], place: int) -> tuple[_Statement, int]:
        """Return the statement that begins at a position, and the position after it."""
        first = tokens[place]
        name = ""
        if place + 1 < len(tokens) and tokens[place + 1].text == ":" and first.kind in ("name", "number"):
            name = first.text
            place += 2
        statement = _Statement(name, first.line, [], [])
        while True:
            total, place = self._sum(tokens, place, statement)
            statement.sums.append(total)
            if place < len(tokens) and tokens[place].kind == "relation" and len(statement.relations) < 2:
                statement.relations.append(tokens[place].text)
                place += 1
                continue
            free = self.section == "bounds" and place < len(tokens) and tokens[place].text.lower() == "free"
            if free and not statement.relations:
                statement.relations.append("free")
                place += 1
            return statement, place

    def _sum(self, tokens: list[_Token], place: int, statement: _Statement) -> tuple[_Sum, int]:
        """Return the sum of terms that begins at a position, and the position after it."""
        total, begun = _Sum(), False
        objective = self.section in ("minimize", "maximize")
        goes_on = not statement.relations  # a sum on the left may have several lines; so may one in a range
        goes_on |= self.section == "rows" and len(statement.relations) == 1 and not statement.sums[0].terms
        while place < len(tokens):
            start, sign = place, 1.0
            if begun and tokens[place].first and not goes_on and tokens[place].kind != "relation":
                if self.section == "rows" and total.terms and tokens[place].text in ("+", "-"):
                    why = "begins with a sign; move the sign to the line before, or give this row a name"
                    raise self._error(tokens[place].line, why)
                break
            while place < len(tokens) and tokens[place].text in ("+", "-"):
                sign = -sign if tokens[place].text == "-" else sign
                place += 1
            token = tokens[place] if place < len(tokens) else None
            signed = place > start
            if token is None or token.kind not in ("number", "name"):
                if signed:
                    raise self._error(tokens[place - 1].line, "a term must follow the sign")
                break
            if begun and not signed:
                break
            place = self._term(tokens, place, sign, total, bool(statement.relations))
            begun = True
        empty = (
            place < len(tokens) and tokens[place].kind == "relation" and statement.name and not statement.sums
        )
        if not begun and not objective and not empty:
            line = tokens[min(place, len(tokens) - 1)].line
            raise self._error(line, "a sum of variables, or a number, is missing")
        return total, place

    def _term(self, tokens: list[_Token], place: int, sign: float, total: _Sum, right: bool) -> int:
        """Add a number, a variable or a multiple of a variable, and return the position after it.

        On the right of a relation the number and its variable must be in one line.
        """
        token = tokens[place]
        follows = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.kind == "name":
            total.terms[token.text] = total.terms.get(token.text, 0.0) + sign
            return place + 1
        value = sign * float(token.text)
        named = place + 2 < len(tokens) and tokens[place + 2].text == ":"
        if follows is None or follows.kind != "name" or (right and follows.first) or named:
            total.constant += value
            return place + 1
        if math.isinf(value):
            raise self._error(token.line, f"{token.text!r} of {follows.text!r} is not finite")
        total.terms[follows.text] = total.terms.get(follows.text, 0.0) + value
        return place + 2

    def _row(self, statement: _Statement) -> None:
        line, relations = statement.line, statement.relations
        if statement.name in self.names:
            why = f"the name {statement.name!r} is that of a row in line {self.names[statement.name]}, too"
            self.source.doubt(line, why, "both are rows")
        elif statement.name:
            self.names[statement.name] = line
        if len(relations) == 1:
            left, right = statement.sums
            terms = dict(left.terms)
            for name, value in right.terms.items():
                terms[name] = terms.get(name, 0.0) - value
            lower, upper = self._ends(relations[0], right.constant - left.constant)
        else:
            terms, lower, upper = self._between(statement)
        if not terms:
            self.source.doubt(line, "the row has no variables", "it is kept as a row")
        if not (lower < INFINITE and upper > -INFINITE):
            raise self._error(line, "no number is on the right side of the row")
        for name, value in terms.items():
            self.columns[name] = None
            if not math.isfinite(value):
                raise self._error(line, f"the coefficient of {name!r} is not finite")
        self.rows.append((statement, terms, lower, upper))

    def _between(self, statement: _Statement) -> tuple[dict[str, float], float, float]:
        """Return the terms of a sum between two numbers, and its bounds."""
        first, middle, last = statement.sums
        if first.terms or last.terms or statement.relations not in (["<=", "<="], [">=", ">="]):
            raise self._error(statement.line, "must have the form: number <= sum of variables <= number")
        ends = first.constant - middle.constant, last.constant - middle.constant
        lower, upper = ends if statement.relations[0] == "<=" else ends[::-1]
        return middle.terms, lower, upper

    @staticmethod
    def _ends(relation: str, right: float) -> tuple[float, float]:
        return -math.inf if relation == "<=" else right, math.inf if relation == ">=" else right

    def _known(self, name: str, line: int) -> None:
        if name not in self.columns:
            why = f"the variable {name!r} is neither in a row nor in the objective"
            self.source.doubt(line, why, "it is a column of its own")
            self.columns[name] = None

    def _bound(self, statement: _Statement) -> None:
        line, sums, relations = statement.line, statement.sums, statement.relations
        named = [total for total in sums if total.terms]
        if not relations or len(named) != 1 or list(named[0].terms.values()) != [1.0] or named[0].constant:
            raise self._error(line, "must be a bound, for example x <= 4, -1 <= x <= 4 or x free")
        name = next(iter(named[0].terms))
        self._known(name, line)
        lower = upper = None
        if relations == ["free"]:
            lower, upper = -math.inf, math.inf
        elif len(relations) == 2:
            _, lower, upper = self._between(statement)
        else:
            turned = {"<=": ">=", ">=": "<=", "=": "="}[relations[0]]
            variable_first = sums[0] is named[0]
            relation = relations[0] if variable_first else turned
            value = sums[1 if variable_first else 0].constant
            lower = None if relation == "<=" else value
            upper = None if relation == ">=" else value
        sides = self.bounds.setdefault(name, [None, None])
        for k, (side, bound) in enumerate((("lower", lower), ("upper", upper))):
            before = sides[k]
            if bound is None:
                continue
            if before is not None:
                why = f"{name!r} has {before[0]:g} for its {side} bound already, from line {before[1]}"
                self.source.doubt(line, why, "the last one counts")
            sides[k] = (bound, line)

    def _box(self, name: str) -> tuple[float, float]:
        """Return the bounds of a column."""
        low, high = self.bounds.get(name, (None, None))
        lower, upper = 0.0 if low is None else low[0], math.inf if high is None else high[0]
        line = max(each[1] for each in (low, high, (0.0, 0)) if each is not None)
        if name in self.binary:
            upper = 1.0 if high is None else upper
            if not (0 <= lower and upper <= 1):
                why = f"{name!r} is binary, with the bounds {lower:g} and {upper:g}"
                self.source.doubt(max(line, self.binary[name]), why, "it is integral, with these bounds")
        if not lower <= upper or lower >= INFINITE or upper <= -INFINITE:
            default = ", 0 by default," if low is None else ""
            why = f"{name!r} has the lower bound {lower:g}{default} and the upper bound {upper:g}"
            self.source.doubt(line, why, "they are kept")
        return lower, upper

    def _program(self) -> LinearProgram:
        if not all(map(math.isfinite, (self.objective.constant, *self.objective.terms.values()))):
            raise self._error(1, "the objective has an infinite number")
        columns = {name: j for j, name in enumerate(self.columns)}
        entries = [
            (i, columns[name], value)
            for i, (_, terms, _, _) in enumerate(self.rows)
            for name, value in terms.items()
        ]
        integral = self.integral.keys() | self.binary.keys()
        return linear_program(
            [self.objective.terms.get(name, 0.0) for name in columns],
            self.objective.constant,
            entries,
            [row[2:] for row in self.rows],
            [self._box(name) for name in columns],
            [name in integral for name in columns],
            (tuple(columns), self._row_names()),
            maximize=self.maximize,
        )

    def _row_names(self) -> tuple[str, ...]:
        """Return the names of the rows; a row without a name gets c and its number, as in CPLEX."""
        names = []
        for number, (statement, *_) in enumerate(self.rows, 1):
            own = statement.name or f"c{number}"
            while not statement.name and own in self.names:
                own += "_"
            names.append(own)
        return tuple(names)
