"""What a name means in a query: a column of its own FROM, or of a query around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Relation:
    """A table or a subquery in FROM."""

    name: str
    columns: dict[str, str]


@dataclass
class Scope:
    """The relations of a FROM, and the query around it."""

    outer: Scope | None
    depth: int
    #: Names of the query's own columns. DuckDB takes them for columns of queries around.
    outputs: list[str] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    #: Columns that USING or NATURAL has merged.
    merged: dict[str, str] = field(default_factory=dict)
    #: Keys of GROUP BY, by their relations. `None`: rows are not grouped.
    keys: set[tuple[str | None, str]] | None = None

    def alone(self, column: str) -> bool:
        """Whether exactly one relation has the column."""
        return column not in self.merged and sum(column in of.columns for of in self.relations) == 1

    def own(self) -> Iterator[tuple[str | None, str, str]]:
        """The columns that an expression may read: relation, column, type."""
        for of in self.relations:
            yield from ((of.name, column, kind) for column, kind in of.columns.items())
        for column, kind in self.merged.items():
            if sum(column in of.columns for of in self.relations) == 2:
                yield None, column, kind

    def names(self, kind: str) -> Iterator[tuple[str, int]]:
        """Names of columns of a type, with the depth of their query. A name means the innermost column that has it."""
        at: Scope | None = self
        relations: set[str] = set()
        columns: set[str] = set()
        while at is not None:
            for relation, column, its in at.own():
                if its != kind or (at.keys is not None and (relation, column) not in at.keys):
                    continue
                if relation is not None and relation not in relations:
                    yield f"{relation}.{column}", at.depth
                if column not in columns and (relation is None or at.alone(column)):
                    yield column, at.depth
            relations |= {of.name for of in at.relations}
            columns |= {column for of in at.relations for column in of.columns} | set(at.outputs)
            at = at.outer
