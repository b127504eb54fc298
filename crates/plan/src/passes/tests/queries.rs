//! Random queries over small tables with critical values: NULL, -0.0, numbers with more digits, repeated
//! rows.

use super::relations::{Rows, Tables};
use super::values::Value;

/// Random numbers from a seed.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound as u64).unwrap_or(0)
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// The tables have the same columns, so that any part of a query can read either.
pub(super) const DECLARED: &str = "
CREATE TABLE t (k STRING, d DECIMAL(20,4), n BIGINT, i INT, s SMALLINT, f DOUBLE, b BOOLEAN) WITH ('connector' = 'any');
CREATE TABLE u (k STRING, d DECIMAL(20,4), n BIGINT, i INT, s SMALLINT, f DOUBLE, b BOOLEAN) WITH ('connector' = 'any');
";

pub(super) fn tables() -> Tables {
    Tables::from([("t", of_t()), ("u", of_u())])
}

fn row(k: &str, d: Option<i128>, ints: [Option<i128>; 3], f: Option<f64>, b: Option<bool>) -> Vec<Value> {
    let exact = |scale| move |number| Value::Exact(number, scale);
    let k = if k.is_empty() { Value::Null } else { Value::Text(k.to_owned()) };
    let [n, i, s] = ints.map(|number| number.map_or(Value::Null, exact(0)));
    let f = f.map_or(Value::Null, Value::Double);
    vec![k, d.map_or(Value::Null, exact(4)), n, i, s, f, b.map_or(Value::Null, Value::Truth)]
}

fn of_t() -> Rows {
    vec![
        row("q", Some(12345), [Some(5_000_000_000), None, Some(1)], Some(0.0), Some(true)),
        row("p", Some(12300), [Some(1), Some(1), Some(300)], Some(-0.0), Some(false)),
        row("", None, [None, Some(2), None], None, None),
        row("a", Some(-5000), [Some(-1), Some(-1), Some(-1)], Some(f64::NAN), Some(true)),
        row("q", Some(10000), [Some(2), Some(10), Some(2)], Some(1.5), None),
    ]
}

fn of_u() -> Rows {
    vec![
        row("q", Some(12345), [Some(1), Some(1), Some(1)], Some(0.0), Some(false)),
        row("", Some(10000), [Some(2), None, Some(2)], Some(1.5), None),
        row("a", None, [None, Some(10), None], Some(-0.0), Some(true)),
        row("a", Some(12300), [Some(5_000_000_000), Some(2), Some(-1)], None, Some(true)),
    ]
}

const EXACT: [&str; 4] = ["d", "n", "i", "s"];
const NUMBERS: [&str; 9] = ["0", "1", "2", "10", "1.23", "1.2345", "300", "5000000000", "CAST(NULL AS INT)"];
const TEXTS: [&str; 4] = ["'q'", "'p'", "'a'", "CAST(NULL AS STRING)"];
const COMPARES: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

/// Writes a query over tables with these names.
pub(super) struct Writer {
    pub(super) chance: Chance,
    scope: Vec<String>,
    /// Conditions of WHERE that compare tables of FROM.
    compared: Vec<String>,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        Writer { chance: Chance::new(seed), scope: Vec::new(), compared: Vec::new() }
    }

    fn column(&mut self, name: &str) -> String {
        let table = self.chance.below(self.scope.len());
        format!("{}.{name}", self.scope[table])
    }

    fn number(&mut self, depth: usize) -> String {
        let column = self.chance.of(&EXACT);
        match self.chance.below(if depth == 0 { 4 } else { 9 }) {
            0 => self.chance.of(&NUMBERS).to_owned(),
            1..=3 => self.column(column),
            4 => {
                let to = self.chance.of(&["INT", "SMALLINT", "BIGINT", "DECIMAL(20,2)", "DECIMAL(12,6)"]);
                let cast = self.chance.of(&["TRY_CAST", "TRY_CAST", "CAST"]);
                format!("{cast}({} AS {to})", self.number(depth - 1))
            }
            5 => format!("({} {} {})", self.number(depth - 1), self.chance.of(&["+", "-"]), self.number(depth - 1)),
            6 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.truth(depth - 1),
                self.number(depth - 1),
                self.number(depth - 1)
            ),
            7 => format!("COALESCE({}, {})", self.number(depth - 1), self.number(depth - 1)),
            _ => {
                let operand = self.number(depth - 1);
                format!("CASE {operand} WHEN {} THEN 1 WHEN {} THEN 2 END", self.number(0), self.number(0))
            }
        }
    }

    fn text(&mut self) -> String {
        if self.chance.below(2) == 0 { self.chance.of(&TEXTS).to_owned() } else { self.column("k") }
    }

    fn pair(&mut self, depth: usize) -> (String, String) {
        match self.chance.below(4) {
            0 => (self.text(), self.text()),
            1 => (self.column("f"), self.chance.of(&["CAST(0 AS DOUBLE)", "CAST(1.5 AS DOUBLE)", "1e0"]).to_owned()),
            _ => (self.number(depth), self.number(depth)),
        }
    }

    pub(super) fn truth(&mut self, depth: usize) -> String {
        let below = depth.saturating_sub(1);
        match self.chance.below(if depth == 0 { 3 } else { 14 }) {
            0 => self.column("b"),
            1 | 2 => {
                let (left, right) = self.pair(below);
                let (left, right) = if self.chance.below(2) == 0 { (left, right) } else { (right, left) };
                format!("{left} {} {right}", self.chance.of(&COMPARES))
            }
            3 | 4 => format!("({} AND {})", self.truth(below), self.truth(below)),
            5 | 6 => format!("({} OR {})", self.truth(below), self.truth(below)),
            7 => format!("NOT ({})", self.truth(below)),
            8 => format!(
                "({}) {}",
                self.truth(below),
                self.chance.of(&["IS TRUE", "IS NOT FALSE", "IS UNKNOWN", "IS NULL"])
            ),
            9 => self.listed(),
            10 => {
                let (left, right) = self.pair(below);
                format!("{left} IS {}DISTINCT FROM {right}", self.chance.of(&["", "NOT "]))
            }
            11 => {
                let not = self.chance.of(&["", "NOT "]);
                format!("{} {not}BETWEEN {} AND {}", self.number(below), self.number(0), self.number(0))
            }
            12 => format!("({}) = {}", self.truth(below), self.chance.of(&["TRUE", "FALSE"])),
            _ => format!("CASE WHEN {} THEN {} END", self.truth(below), self.truth(below)),
        }
    }

    fn listed(&mut self) -> String {
        let not = self.chance.of(&["", "NOT "]);
        let column = self.chance.of(&EXACT);
        let mut items: Vec<String> = (0..=self.chance.below(3)).map(|_| self.chance.of(&NUMBERS).to_owned()).collect();
        match self.chance.below(4) {
            0 => items.push(self.number(0)),
            1 => {
                let operand = (self.column("k"), self.column("i"));
                let rows = "('q', 1), (NULL, NULL), ('a', 10)";
                return format!("({}, {}) {not}IN ({rows})", operand.0, operand.1);
            }
            _ => {}
        }
        format!("{} {not}IN ({})", self.column(column), items.join(", "))
    }

    /// A table, an inline view, or a join of tables.
    fn from(&mut self, joins: usize) -> String {
        let table = self.chance.of(&["t", "u"]);
        let name = format!("x{}", self.scope.len());
        let first = match self.chance.below(4) {
            0 => {
                let mut inner = Writer::new(self.chance.0);
                inner.scope.push(table.to_owned());
                let text = format!(
                    "(SELECT {} AS k, {} AS d, n, {} AS i, s, f, {} AS b FROM {table} WHERE {})",
                    inner.text(),
                    "CAST(d AS DECIMAL(20,4))",
                    "TRY_CAST(n AS INT)",
                    inner.truth(1),
                    inner.truth(1)
                );
                self.chance.below(9);
                text
            }
            1 => "(SELECT * FROM t UNION ALL SELECT * FROM u)".to_owned(),
            _ => table.to_owned(),
        };
        self.scope.push(name.clone());
        let mut text = format!("{first} {name}");
        // `a, b, c`, where `a` and `b` have no key.
        if joins == 2 && self.chance.below(2) == 0 {
            let (second, third) = (format!("x{}", self.scope.len()), format!("x{}", self.scope.len() + 1));
            self.compared = vec![format!("{name}.k = {third}.k"), format!("{third}.i = {second}.i")];
            self.scope.extend([second.clone(), third.clone()]);
            return format!("{text}, t {second}, u {third}");
        }
        for _ in 0..joins {
            let table = self.chance.of(&["t", "u"]);
            let kind = self.chance.of(&["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            let other = format!("x{}", self.scope.len());
            let former = self.scope[self.chance.below(self.scope.len())].clone();
            self.scope.push(other.clone());
            let column = self.chance.of(&["k", "n", "i", "s", "d"]);
            let equal = self.chance.of(&["=", "=", "IS NOT DISTINCT FROM"]);
            let key = format!("{former}.{column} {equal} {other}.{column}");
            let more = if self.chance.below(2) == 0 { format!(" AND {}", self.truth(1)) } else { String::new() };
            text = format!("{text} {kind} {table} {other} ON {key}{more}");
        }
        text
    }

    /// Values of each row of a table.
    pub(super) fn values(&mut self) -> String {
        self.scope.push("t".to_owned());
        format!("SELECT {}, {}, {} FROM t WHERE {}", self.number(2), self.truth(3), self.truth(2), self.truth(2))
    }

    /// The condition of WHERE.
    fn condition(&mut self) -> String {
        let mut all = std::mem::take(&mut self.compared);
        all.push(self.truth(2));
        all.join(" AND ")
    }

    /// A whole query.
    pub(super) fn query(&mut self) -> String {
        let joins = [0, 0, 1, 1, 2][self.chance.below(5)];
        let from = self.from(joins);
        match self.chance.below(4) {
            0 => {
                let key = self.column("k");
                let of = self.column("i");
                let filter = self.truth(1);
                let having = ["COUNT(*) > 1".to_owned(), format!("{key} = 'q'"), "1 = 0".to_owned()];
                let having = having[self.chance.below(3)].clone();
                format!(
                    "SELECT {key}, COUNT(*), SUM({of}) FILTER (WHERE {filter}), MIN({of}), COUNT(DISTINCT {of}) FROM {from} \
                     WHERE {} GROUP BY {key} HAVING {having}",
                    self.condition()
                )
            }
            1 => format!(
                "SELECT DISTINCT {}, {} FROM {from} WHERE {} AND {}",
                self.number(1),
                self.truth(2),
                self.condition(),
                self.truth(2)
            ),
            _ => format!(
                "SELECT {}, {}, {} FROM {from} WHERE {} AND {}",
                self.number(2),
                self.truth(3),
                self.column("k"),
                self.condition(),
                self.truth(3)
            ),
        }
    }
}
