"""Expressions by chance, in words that DuckDB has too."""

from __future__ import annotations

import random
from dataclasses import dataclass

BIGINT, STRING, DECIMAL, DOUBLE, BOOLEAN, TIME = "BIGINT", "STRING", "DECIMAL(10,2)", "DOUBLE", "BOOLEAN", "TIMESTAMP(3)"
TYPES = [BIGINT, BIGINT, STRING, DECIMAL, DOUBLE, BOOLEAN, TIME]
SECONDS = "INTERVAL '{}' SECOND"


@dataclass
class Expressions:
    """Draws expressions."""

    rng: random.Random

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def literal(self, kind: str) -> str:
        number = self.rng.randrange(-3, 10)
        return {
            BIGINT: str(number),
            STRING: f"'{self.rng.choice(['', 'a', 'b', 'tea', 'x%', '7'])}'",
            DECIMAL: f"{number}.{self.rng.choice(['25', '50', '07'])}",
            DOUBLE: f"{number}.5e0",
            BOOLEAN: self.rng.choice(["TRUE", "FALSE"]),
            TIME: f"TIMESTAMP '2026-01-01 10:0{self.rng.randrange(3)}:{self.rng.randrange(10, 60)}'",
        }[kind]

    def expression(self, kind: str, of: dict[str, str], depth: int = 2) -> str:
        """An expression of these columns."""
        columns = [name for name, its in of.items() if its == kind]
        if kind == BOOLEAN and not columns and of and (depth == 0 or self.chance(0.4)):
            # Not a constant: the planner removes what is under a condition that is never true, with its event time.
            return f"({self.rng.choice(list(of))} IS {self.rng.choice(['', 'NOT '])}NULL)"
        if depth == 0 or self.chance(0.4):
            return self.rng.choice(columns) if columns and (kind == BOOLEAN or self.chance(0.85)) else self.literal(kind)

        def of_kind(other: str) -> str:
            return self.expression(other, of, depth - 1)

        common = ["case", "coalesce", "nullif"]
        own = {
            BIGINT: ["+", "-", "*", "/", "%", "abs", "length", "second", "count"],
            STRING: ["||", "upper", "substring", "cast", "replace"],
            DECIMAL: ["decimal+", "decimal-"],
            DOUBLE: ["+", "-", "double", "half"],
            BOOLEAN: ["compare", "compare", "compare", "and", "or", "not", "null", "in", "between", "like", "distinct"],
            TIME: ["later"],
        }
        chosen = self.rng.choice(own[kind] + common)
        if chosen == "case":
            return f"CASE WHEN {of_kind(BOOLEAN)} THEN {of_kind(kind)} ELSE {of_kind(kind)} END"
        if chosen in ("coalesce", "nullif"):
            return f"{chosen.upper()}({of_kind(kind)}, {of_kind(kind)})"
        if chosen in ("+", "-", "||"):
            return f"({of_kind(kind)} {chosen} {of_kind(kind)})"
        if chosen in ("decimal+", "decimal-"):
            return f"CAST({of_kind(kind)} {chosen[-1]} {of_kind(kind)} AS {DECIMAL})"
        if chosen in ("/", "%"):
            return f"({of_kind(kind)} {chosen} {self.rng.choice([-3, 2, 3, 7])})"
        if chosen in ("and", "or"):
            return f"({of_kind(kind)} {chosen.upper()} {of_kind(kind)})"
        if chosen == "distinct":
            other = self.rng.choice([BIGINT, STRING, BOOLEAN])
            return f"({of_kind(other)} IS {self.rng.choice(['', 'NOT '])}DISTINCT FROM {of_kind(other)})"
        if chosen == "compare":
            other = self.rng.choice([BIGINT, BIGINT, STRING, DECIMAL, DOUBLE, TIME])
            return f"({of_kind(other)} {self.rng.choice(['=', '<>', '<', '>', '<=', '>='])} {of_kind(other)})"
        other = self.rng.choice([BIGINT, STRING])
        listed = ", ".join(self.literal(other) for _ in range(self.rng.randrange(1, 4)))
        return {
            "*": lambda: f"({of_kind(BIGINT)} * {self.rng.randrange(-2, 4)})",
            "abs": lambda: f"ABS({of_kind(BIGINT)})",
            "length": lambda: f"CAST(CHAR_LENGTH({of_kind(STRING)}) AS BIGINT)",
            "second": lambda: f"EXTRACT(SECOND FROM {of_kind(TIME)})",
            "count": lambda: f"CASE WHEN {of_kind(BOOLEAN)} THEN 1 ELSE 0 END",
            "upper": lambda: f"{self.rng.choice(['UPPER', 'LOWER', 'TRIM'])}({of_kind(STRING)})",
            "substring": lambda: f"SUBSTRING({of_kind(STRING)}, {self.rng.randrange(1, 3)}, {self.rng.randrange(3)})",
            "cast": lambda: f"CAST({of_kind(BIGINT)} AS STRING)",
            "replace": lambda: f"REPLACE({of_kind(STRING)}, 'a', {self.literal(STRING)})",
            "double": lambda: f"CAST({of_kind(BIGINT)} AS DOUBLE)",
            "half": lambda: f"({of_kind(DOUBLE)} / 2e0)",
            "not": lambda: f"(NOT {of_kind(BOOLEAN)})",
            "null": lambda: f"({of_kind(self.rng.choice(TYPES))} IS {self.rng.choice(['', 'NOT '])}NULL)",
            "in": lambda: f"({of_kind(other)} {self.rng.choice(['', 'NOT '])}IN ({listed}))",
            "between": lambda: f"({of_kind(other)} BETWEEN {self.literal(other)} AND {of_kind(other)})",
            "like": lambda: f"({of_kind(STRING)} LIKE '{self.rng.choice(['%a%', 't_a', '%', '_', ''])}')",
            "later": lambda: f"({of_kind(TIME)} {self.rng.choice('+-')} {SECONDS.format(self.rng.randrange(1, 20))})",
        }[chosen]()

    def condition(self, of: dict[str, str]) -> str:
        return self.expression(BOOLEAN, of)
