"""Families like those of energy systems: a window of periods rolls on, and forecasts move."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from copter.bench.sequences.family import SequenceRounds
from copter.bench.sequences.program import SequenceProgram

_SHED = 1000.0
"""Cost of a unit of demand that is not served."""


def _forecast(hour: float, level: float) -> float:
    """Return a demand relative to its mean, with a peak in the morning and in the evening."""
    day = 2.0 * math.pi * hour / 24.0
    return level * (1.0 - 0.25 * math.cos(day) - 0.1 * math.cos(2.0 * day))


# ---- unit commitment -------------------------------------------------------------------------------------


@dataclass
class _Hour:
    """Names of an hour's columns and rows; each list has one name a unit."""

    number: int
    balance: str
    columns: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    on: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    up: list[str] = field(default_factory=list)
    down: list[str] = field(default_factory=list)


class _Commitment:
    """Relaxation of unit commitment: units are on (0 to 1), start, and have an output within their limits."""

    def __init__(self, rng: np.random.Generator, units: int, hours: int) -> None:
        self.program, self.rng, self.units = SequenceProgram(), rng, units
        self.most = np.round(rng.uniform(50.0, 400.0, units), 1)
        self.least = np.round(0.35 * self.most, 2)
        self.ramp = np.round(rng.uniform(0.3, 0.6, units) * self.most, 2)
        self.fuel = rng.uniform(15.0, 60.0, units)
        self.idle = rng.uniform(2.0, 5.0, units) * self.most
        self.start = rng.uniform(10.0, 40.0, units) * self.most
        self.level = 0.6 * float(self.most.sum())
        self.on, self.output = np.full(units, 0.5), 0.35 * self.most
        self.hours: list[_Hour] = []
        for number in range(hours):
            self.add(number)

    def demand(self, hour: int) -> float:
        """Draw the forecast of an hour's demand."""
        return _forecast(hour, self.level) * float(self.rng.uniform(0.95, 1.05))

    def add(self, number: int) -> None:
        """Append an hour to the window."""
        program, need = self.program, self.demand(number)
        hour = _Hour(number, program.add_row(need, need))
        hour.columns.append(program.add_column(_SHED, math.inf, {hour.balance: 1.0}))
        last = self.hours[-1] if self.hours else None
        for unit in range(self.units):
            self._add_unit(hour, last, unit)
        self.hours.append(hour)

    def _add_unit(self, hour: _Hour, last: _Hour | None, unit: int) -> None:
        """Append a unit's columns and rows, linked with the last hour or with the present state."""
        program, ramp = self.program, float(self.ramp[unit])
        on, output = (0.0, 0.0) if last else (float(self.on[unit]), float(self.output[unit]))
        links = {} if last is None else {last.on[unit]: -1.0}
        flows = {} if last is None else {last.output[unit]: -1.0}
        most, least = program.add_row(-math.inf, 0.0), program.add_row(0.0, math.inf)
        began = program.add_row(-math.inf, on, links)
        step = program.add_row(output - ramp, output + ramp, flows)
        hour.on.append(
            program.add_column(
                float(self.idle[unit]),
                1.0,
                {most: -float(self.most[unit]), least: -float(self.least[unit]), began: 1.0},
            )
        )
        entries = {hour.balance: 1.0, most: 1.0, least: 1.0, step: 1.0}
        hour.output.append(program.add_column(float(self.fuel[unit]), math.inf, entries))
        hour.starts.append(program.add_column(float(self.start[unit]), 1.0, {began: -1.0}))
        hour.up.append(began)
        hour.down.append(step)
        hour.columns += [hour.on[-1], hour.output[-1], hour.starts[-1]]
        hour.rows += [most, least, began, step]

    def roll(self, x: dict[str, float]) -> None:
        """Fix the oldest hour at its values, remove it, and link the next hour with its state."""
        program, oldest, first = self.program, self.hours.pop(0), self.hours[0]
        for unit in range(self.units):
            on, output, ramp = x[oldest.on[unit]], x[oldest.output[unit]], float(self.ramp[unit])
            program.set_sides(first.up[unit], -math.inf, on)
            program.set_sides(first.down[unit], output - ramp, output + ramp)
        for name in oldest.columns:
            program.remove_column(name)
        for name in (oldest.balance, *oldest.rows):
            program.remove_row(name)

    def move(self) -> None:
        """Draw new forecasts: the demand of each hour, and the fuel prices of a quarter of the units."""
        for hour in self.hours:
            need = self.demand(hour.number)
            self.program.set_sides(hour.balance, need, need)
        for unit in self.rng.choice(self.units, self.units // 4, replace=False).tolist():
            self.fuel[unit] *= float(self.rng.uniform(0.9, 1.1))
            for hour in self.hours:
                self.program.set_cost(hour.output[unit], float(self.fuel[unit]))


def commitment(seed: int, units: int = 24, hours: int = 48) -> SequenceRounds:
    """Yield the rounds of a relaxation of unit commitment with a rolling window."""
    model = _Commitment(np.random.default_rng(seed), units, hours)
    while True:
        optimum = yield model.program
        model.roll(dict(optimum.x))
        model.move()
        model.add(model.hours[-1].number + 1)


# ---- storage ---------------------------------------------------------------------------------------------


@dataclass
class _Quarter:
    """Names of a period's columns and rows; `levels` has the level and its row of each store."""

    number: int
    balance: str
    buy: str
    sell: str
    charge: list[str] = field(default_factory=list)
    discharge: list[str] = field(default_factory=list)
    levels: list[tuple[str, str]] = field(default_factory=list)


class _Storage:
    """Stores with a load behind one grid connection, which buys and sells at the prices of the forecast."""

    def __init__(self, rng: np.random.Generator, stores: int, quarters: int) -> None:
        self.program, self.rng, self.stores = SequenceProgram(), rng, stores
        self.energy = np.round(rng.uniform(20.0, 200.0, stores), 1)
        self.power = np.round(self.energy * rng.uniform(0.05, 0.15, stores), 2)
        self.losses = np.round(rng.uniform(0.9, 0.98, stores), 3)
        self.level = 0.5 * self.energy
        self.load = 0.4 * float(self.power.sum())
        self.quarters: list[_Quarter] = []
        for number in range(quarters):
            self.add(number)

    def _price(self, number: int) -> float:
        return 50.0 * _forecast(number / 4.0, 1.0) * float(self.rng.uniform(0.8, 1.2))

    def _need(self, number: int) -> float:
        """Draw the load without the power of the sun, which may exceed it."""
        sun = max(0.0, -math.cos(2.0 * math.pi * number / 96.0)) * float(self.rng.uniform(0.5, 1.5))
        return self.load * (_forecast(number / 4.0, 1.0) - sun)

    def add(self, number: int) -> None:
        """Append a period to the window."""
        program, need, price = self.program, self._need(number), self._price(number)
        balance, grid = program.add_row(need, need), 2.0 * self.load
        quarter = _Quarter(
            number,
            balance,
            program.add_column(price, grid, {balance: 1.0}),
            program.add_column(-0.9 * price, grid, {balance: -1.0}),
        )
        spill = program.add_column(0.0, math.inf, {balance: -1.0})
        missing = program.add_column(_SHED, math.inf, {balance: 1.0})
        quarter.charge += [spill, missing]  # they leave with the period
        last = self.quarters[-1] if self.quarters else None
        for store in range(self.stores):
            kept = 0.0 if last else float(self.level[store])
            row = program.add_row(kept, kept, {last.levels[store][0]: -1.0} if last else {})
            power, loss = float(self.power[store]), float(self.losses[store])
            level = program.add_column(0.0, float(self.energy[store]), {row: 1.0})
            quarter.charge.append(program.add_column(0.01, power, {row: -loss, balance: -1.0}))
            quarter.discharge.append(program.add_column(0.01, power, {row: 1.0, balance: loss}))
            quarter.levels.append((level, row))
        self.quarters.append(quarter)

    def roll(self, x: dict[str, float]) -> None:
        """Remove the oldest period, and begin the next one with its levels."""
        program, oldest, first = self.program, self.quarters.pop(0), self.quarters[0]
        for (level, row), (_, after) in zip(oldest.levels, first.levels, strict=True):
            program.set_sides(after, x[level], x[level])
            program.remove_column(level)
            program.remove_row(row)
        for name in (oldest.buy, oldest.sell, *oldest.charge, *oldest.discharge):
            program.remove_column(name)
        program.remove_row(oldest.balance)

    def move(self) -> None:
        """Draw new forecasts of prices and loads; a store may be limited for maintenance."""
        for quarter in self.quarters:
            price, need = self._price(quarter.number), self._need(quarter.number)
            self.program.set_cost(quarter.buy, price)
            self.program.set_cost(quarter.sell, -0.9 * price)
            self.program.set_sides(quarter.balance, need, need)
        store = int(self.rng.integers(self.stores))
        share = float(self.rng.choice([0.0, 0.5, 1.0]))
        for quarter in self.quarters[:16]:
            self.program.set_bounds(quarter.discharge[store], 0.0, share * float(self.power[store]))


def storage(seed: int, stores: int = 20, quarters: int = 96) -> SequenceRounds:
    """Yield the rounds of a dispatch of stores with a rolling window."""
    model = _Storage(np.random.default_rng(seed), stores, quarters)
    while True:
        optimum = yield model.program
        model.roll(dict(optimum.x))
        model.move()
        model.add(model.quarters[-1].number + 1)
