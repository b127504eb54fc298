"""Scripts in Anabranch's words, and the same queries in DuckDB's: types, quotes and windows differ, all else is common to both."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|[A-Za-z_$][A-Za-z_0-9$]*|[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?|\s+|=>|<>|<=|>=|\|\||.",
    re.S,
)
#: Words that are names in scripts and keywords in DuckDB.
QUOTED = {"at", "some"}
OF_TYPES = "()<>"
EPOCH = "TIMESTAMP '1970-01-01'"


def tokens(text: str) -> list[str]:
    return [token for token in TOKEN.findall(text) if not token.startswith(("--", "/*"))]


def words(text: str) -> list[str]:
    return [token for token in tokens(text) if not token.isspace()]


def split(parts: list[str], at: str, brackets: str = "()[]") -> list[list[str]]:
    """Divides tokens at the separators that are in no brackets. Those of types are `<>` too."""
    found: list[list[str]] = [[]]
    depth = 0
    for part in parts:
        if part in brackets and len(part) == 1:
            depth += 1 if brackets.index(part) % 2 == 0 else -1
        if part == at and depth == 0:
            found.append([])
        else:
            found[-1].append(part)
    return found


def within(parts: list[str], start: int) -> int:
    """The place of the parenthesis that closes the one at `start`."""
    depth = 0
    for place in range(start, len(parts)):
        depth += {"(": 1, ")": -1}.get(parts[place], 0)
        if depth == 0:
            return place
    raise ValueError("".join(parts[start : start + 20]))


@dataclass
class Table:
    """A declared table."""

    name: str
    #: Names and types of the columns that its records have.
    columns: dict[str, str] = field(default_factory=dict)
    not_null: set[str] = field(default_factory=set)
    computed: dict[str, str] = field(default_factory=dict)
    #: The column of event time, and by how many milliseconds rows may be out of order.
    watermark: tuple[str, int] | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def types(self) -> list[str]:
        return list(self.columns.values())


@dataclass
class Script:
    """What a script declares, and its views, functions and inserts in their order."""

    tables: dict[str, Table] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)


def name_of(token: str) -> str:
    return token.strip('`"')


def milliseconds(interval: list[str]) -> int:
    """Of `INTERVAL '5' SECOND`."""
    units = {"SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
    return round(float(interval[1].strip("'")) * units[interval[2].upper()])


def table(parts: list[str]) -> Table:
    """Reads what follows CREATE TABLE."""
    made = Table(name_of(parts[0]))
    end = within(parts, 1)
    for of in split(parts[2:end], ",", OF_TYPES):
        if of[0] == "WATERMARK":
            made.watermark = name_of(of[2]), milliseconds(of[6:]) if len(of) > 5 else 0
        elif of[1] == "AS":
            made.computed[name_of(of[0])] = " ".join(of[2:])
        else:
            if of[-2:] == ["NOT", "NULL"]:
                made.not_null.add(name_of(of[0]))
                of = of[:-2]
            made.columns[name_of(of[0])] = joined(" ".join(of[1:]))
    for option in split(parts[end + 3 : -1], ","):
        made.options[option[0].strip("'")] = option[2].strip("'")
    return made


def script(text: str) -> Script:
    read = Script()
    for statement in split(tokens(text), ";"):
        parts = [token for token in statement if not token.isspace()]
        if parts[:2] == ["CREATE", "TABLE"]:
            made = table(parts[2:])
            read.tables[made.name] = made
        elif parts and parts[0] != "SET" and parts[:2] != ["CREATE", "FUNCTION"]:
            read.statements.append("".join(statement).strip())
    return read


def joined(kind: str) -> str:
    """A type with blanks only where they are needed."""
    return re.sub(r" ?([<>(),]) ?", r"\1", kind)


def inner(kind: str) -> list[list[str]]:
    """The parts of `ARRAY<...>`, `MAP<...>` or `ROW<...>`."""
    return split(words(kind)[2:-1], ",", OF_TYPES)


def duck_type(kind: str) -> str:
    """A type in DuckDB's words. An instant is the time that it has in UTC."""
    kind = joined(kind)
    if kind.startswith("ARRAY<"):
        return duck_type(" ".join(inner(kind)[0])) + "[]"
    if kind.startswith("MAP<"):
        return f"MAP({', '.join(duck_type(' '.join(of)) for of in inner(kind))})"
    if kind.startswith("ROW<"):
        return f"STRUCT({', '.join(f'{chr(34)}{name_of(of[0])}{chr(34)} {duck_type(chr(32).join(of[1:]))}' for of in inner(kind))})"
    if kind.startswith("TIMESTAMP"):
        return "TIMESTAMP"
    return {"STRING": "VARCHAR", "BYTES": "BLOB"}.get(kind, kind)


def bucket(column: str, size: str, offset: str | None) -> str:
    return f"time_bucket({size}, {column}, {EPOCH}" + (f" + {offset})" if offset else ")")


def window(function: str, arguments: list[list[str]]) -> str:
    """A window table function as a query. Its rows have an event time."""
    names = {"TUMBLE": ["SIZE"], "HOP": ["SLIDE", "SIZE"], "CUMULATE": ["STEP", "SIZE"], "SESSION": ["GAP"]}[function]
    if arguments[0][1] == "=>":
        given = {name_of(of[0]).upper(): of[2:] for of in arguments}
    else:
        given = dict(zip(["DATA", "TIMECOL", *names, "OFFSET"], arguments, strict=False))
    data = given["DATA"]
    data, *by = split(data, "PARTITION")
    keys = " ".join(by[0][1:]).strip("()") if by else ""
    rows = duck(" ".join(data[1:] if data[0] == "TABLE" else data))
    column = duck(given["TIMECOL"][2])
    length, offset = {of: duck(" ".join(given[of])) for of in names}, duck(" ".join(given["OFFSET"])) if "OFFSET" in given else None
    there = f"FROM {rows} WHERE {column} IS NOT NULL"
    size = length.get("SIZE", "")
    if function == "TUMBLE":
        made = f"SELECT *, {bucket(column, size, offset)} AS window_start, window_start + {size} AS window_end {there}"
    elif function == "HOP":
        steps = f"generate_series(0, CAST(epoch_ms({size}) // epoch_ms({length['SLIDE']}) AS BIGINT) - 1)"
        last = bucket(column, length["SLIDE"], offset)
        made = f"SELECT * EXCLUDE hops, {last} - unnest(hops) * {length['SLIDE']} AS window_start, window_start + {size} AS window_end "
        made += f"FROM (SELECT *, {steps} AS hops {there})"
    elif function == "CUMULATE":
        steps = f"generate_series(1, CAST(epoch_ms({size}) // epoch_ms({length['STEP']}) AS BIGINT))"
        begins, ends = bucket(column, size, offset), f"window_start + unnest(hops) * {length['STEP']}"
        made = f"SELECT * EXCLUDE hops, {begins} AS window_start, {ends} AS window_end"
        made = f"SELECT * FROM ({made} FROM (SELECT *, {steps} AS hops {there})) WHERE {column} < window_end"
    else:
        gap = length["GAP"]
        per = f"PARTITION BY {duck(keys)}" if keys else ""
        also = f"{duck(keys)}, " if keys else ""
        opens = f"CASE WHEN {column} - lag({column}) OVER ({per} ORDER BY {column}) <= {gap} THEN 0 ELSE 1 END AS opens"
        numbered = f"SELECT *, sum(opens) OVER ({per} ORDER BY {column}) AS number FROM (SELECT *, {opens} {there})"
        made = f"SELECT * EXCLUDE (opens, number), min({column}) OVER w AS window_start, max({column}) OVER w + {gap} AS window_end "
        made += f"FROM ({numbered}) WINDOW w AS (PARTITION BY {also}number)"
    return f"(SELECT *, window_end - INTERVAL 1 MILLISECOND AS window_time FROM ({made}))"


def duck(text: str) -> str:
    """A query in DuckDB's words."""
    parts = tokens(text)
    made: list[str] = []
    place = 0
    while place < len(parts):
        part = parts[place]
        following = [(at, parts[at]) for at in range(place + 1, len(parts)) if not parts[at].isspace()][:3]
        if (
            part == "TABLE"
            and len(following) > 1
            and following[0][1] == "("
            and following[1][1] in ("TUMBLE", "HOP", "CUMULATE", "SESSION")
        ):
            end = within(parts, following[2][0])
            arguments = [of for of in parts[following[2][0] + 1 : end] if not of.isspace()]
            made.append(window(following[1][1], split(arguments, ",")))
            place = within(parts, following[0][0])
        elif part.startswith("`"):
            made.append(f'"{part[1:-1]}"')
        elif part in QUOTED:
            made.append(f'"{part}"')
        elif part in ("TIMESTAMP", "TIMESTAMP_LTZ") and following[:1] and following[0][1] == "(":
            made.append("TIMESTAMP")
            place = within(parts, following[0][0])
        else:
            made.append(part)
        place += 1
    return "".join(made)
