//! Random subqueries. A seed determines each; `ANABRANCH_SEED=n` runs one.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion_common::{Column, JoinType};
use datafusion_expr::{Case, Expr, Operator, binary_expr, lit};

use super::rows::{Row, Tables, nested_loops, rows};
use super::{call, outer, row_number, table};
use crate::apply::apply;
use crate::copies::Copies;
use crate::functions::Functions;
use crate::rel::{Rel, computed, kept};

const SEEDS: u64 = 1000;
const KINDS: [JoinType; 4] = [JoinType::Inner, JoinType::Left, JoinType::LeftSemi, JoinType::LeftAnti];
const JOINS: [JoinType; 8] = [
    JoinType::Inner,
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::RightSemi,
];
const ORDERS: [Operator; 4] = [Operator::Lt, Operator::GtEq, Operator::NotEq, Operator::IsNotDistinctFrom];

/// Random numbers, and the subquery built from them.
struct Chance {
    state: RefCell<u64>,
    /// Columns of the outer queries.
    outer: RefCell<Vec<Expr>>,
}

impl Chance {
    fn below(&self, bound: usize) -> usize {
        let mut state = self.state.borrow_mut();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        usize::try_from((*state >> 11) % bound as u64).unwrap_or(0)
    }

    fn is(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn of<'c, T>(&self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }

    fn number(&self) -> Option<i64> {
        (!self.is(20)).then(|| i64::try_from(self.below(3)).unwrap_or(0))
    }

    fn rows(&self) -> Vec<Row> {
        (0..self.below(6)).map(|_| vec![Some(self.number().unwrap_or(3)), self.number(), self.number()]).collect()
    }

    fn column(&self, plan: &Rel) -> Expr {
        match plan.ids().as_slice() {
            [] => lit(1_i64),
            columns => Expr::Column(self.of(columns).clone()),
        }
    }

    fn outer(&self) -> Expr {
        self.of(&self.outer.borrow()).clone()
    }

    /// A value over a plan.
    fn value(&self, plan: &Rel) -> Expr {
        match self.below(10) {
            0..=4 => self.column(plan),
            5 => lit(i64::try_from(self.below(3)).unwrap_or(0)),
            6 => self.outer(),
            7 => self.column(plan) + lit(1_i64),
            8 => self.column(plan) + self.outer(),
            _ => {
                let column = self.column(plan);
                let when = vec![(Box::new(column.clone().is_null()), Box::new(self.outer()))];
                Expr::Case(Case::new(None, when, Some(Box::new(column))))
            }
        }
    }

    fn condition(&self, plan: &Rel) -> Expr {
        let key = if self.is(70) { self.column(plan) } else { self.value(plan) };
        match self.below(10) {
            0..=4 => key.eq(self.outer()),
            5 | 6 => binary_expr(key, *self.of(&ORDERS), self.outer()),
            7 => binary_expr(self.outer(), *self.of(&ORDERS), self.value(plan)),
            8 => key.eq(self.value(plan)),
            _ => binary_expr(self.outer(), *self.of(&ORDERS), lit(1_i64)).or(self.column(plan).is_null()),
        }
    }

    fn alias(&self, plan: Rel) -> Rel {
        let plan = if plan.columns().fields().is_empty() { self.project(plan) } else { plan };
        plan.called("r").expect("a relation")
    }

    /// Values as columns with the names of the tables' columns.
    fn project(&self, plan: Rel) -> Rel {
        let mut names = vec!["k", "x", "y"];
        let mut exprs = Vec::new();
        for _ in 0..=self.below(3) {
            let name = names.swap_remove(self.below(names.len()));
            exprs.push(computed(name, self.value(&plan)));
            if names.is_empty() {
                break;
            }
        }
        plan.project(exprs).expect("a projection")
    }

    fn leaf(&self) -> Rel {
        match self.below(10) {
            0 => self.project(Rel::one_row()),
            1 => {
                let one = Rel::one_row();
                let rows = (0..=self.below(2)).map(|_| vec![self.value(&one) + lit(0_i64), self.value(&one)]);
                Rel::values(rows.collect()).expect("rows")
            }
            place => {
                let name = if place % 2 == 0 { "t" } else { "s" };
                let rows = self.alias(table(name).instance().expect("a table"));
                rows.clone().filter(self.condition(&rows)).expect("rows")
            }
        }
    }

    fn plan(&self, depth: usize) -> Rel {
        if depth == 0 {
            return self.leaf();
        }
        let input = self.plan(depth - 1);
        let rows = input.clone();
        let built = match self.below(14) {
            0 | 1 => rows.filter(self.condition(&input)),
            2 => return self.project(input),
            3 => return self.alias(self.project(input)),
            4 | 5 => {
                let (left, right) = (self.alias(input), self.alias(self.plan(self.below(depth))));
                let both = left.clone().cross_join(right.clone()).expect("");
                let on = match self.below(4) {
                    0 => self.condition(&both),
                    1 => self.column(&left).eq(self.column(&right)).and(self.condition(&both)),
                    _ => self.column(&left).eq(self.column(&right)),
                };
                let joined = left.join(right, *self.of(&JOINS), [on]);
                return self.alias(self.project(joined.expect("a join")));
            }
            6 | 7 => {
                let mut keys: Vec<Expr> = (0..self.below(3)).map(|_| self.value(&input)).collect();
                // A column is a key only once.
                let twice = keys.len() > 1 && keys[0] == keys[1];
                keys.truncate(if twice { 1 } else { 2 });
                let name = *self.of(&["max", "count", "sum"]);
                let argument = if self.is(80) { self.column(&input) } else { self.value(&input) };
                let calls = if keys.is_empty() || self.is(70) {
                    vec![computed("k", call(name, vec![argument]))]
                } else {
                    vec![]
                };
                rows.aggregate(keys, calls)
            }
            8 => {
                let order = input.ids().into_iter().map(Expr::Column).collect();
                let partition = if self.is(50) { vec![self.column(&input)] } else { Vec::new() };
                let number = row_number(partition, order);
                rows.over([computed("w", number)])
            }
            9 => {
                let order = input.ids().into_iter().map(|column| Expr::Column(column).sort(true, true));
                let bounds = [Some(self.below(2) as i64), self.is(80).then_some(self.below(3) as i64)];
                let [skip, fetch] = bounds.map(|bound| bound.map(lit));
                Ok(rows.sort(order).limit(skip, fetch))
            }
            10 => Ok(rows.distinct()),
            11 => {
                let other = self.plan(self.below(depth));
                let [one, two] = [input, other].map(|plan| {
                    let exprs = [computed("x", self.column(&plan)), computed("k", self.column(&plan))];
                    plan.project(exprs).expect("")
                });
                Rel::union(vec![one.into(), two.into()])
            }
            12 => {
                let column = self.column(&input);
                let when = vec![(Box::new(column.clone().is_null()), Box::new(lit(1_i64)))];
                let number = Expr::Case(Case::new(None, when, Some(Box::new(column))));
                let columns = input.ids().into_iter().map(kept);
                rows.project(columns.chain([computed("w", number)])).map(|rows| Rel::Copies(Copies::new(rows)))
            }
            _ => return self.nested(input),
        };
        built.expect("a plan")
    }

    /// A dependent join within the subquery.
    fn nested(&self, input: Rel) -> Rel {
        let left = self.alias(input);
        let around = self.outer.borrow().len();
        let columns = left.columns().iter();
        let columns = columns.map(|col| Expr::OuterReferenceColumn(Arc::clone(&col.field), col.id.clone()));
        self.outer.borrow_mut().extend(columns);
        let right = self.alias(self.plan(2));
        self.outer.borrow_mut().truncate(around);
        let column = |plan: &Rel| self.column(plan);
        let on = column(&left).eq(column(&right));
        let (kind, on) = (*self.of(&KINDS), if self.is(50) { vec![on] } else { Vec::new() });
        let joined = apply(left, right, kind, on, &Functions::new());
        self.alias(self.project(joined.expect("a join")))
    }
}

/// Compares a dependent join with nested loops. `false`: it is not supported.
fn agrees(seed: u64) -> bool {
    let state = RefCell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let chance = Chance { state, outer: RefCell::new(["o.id", "o.k", "o.x"].map(outer).to_vec()) };
    let tables: Tables = ["o", "t", "s"].into_iter().map(|name| (name.to_owned(), chance.rows())).collect();
    let left = table("o");
    let kind = *chance.of(&KINDS);
    let right = chance.plan(chance.below(5));
    let is_choice = matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti);
    let right = if is_choice && chance.is(50) { right } else { chance.alias(right) };
    let on = match chance.below(3) {
        0 => vec![chance.column(&left).eq(chance.column(&right))],
        1 if chance.is(30) => vec![binary_expr(chance.column(&right), Operator::Lt, chance.column(&left))],
        _ => Vec::new(),
    };
    let joined = match apply(left.clone(), right.clone(), kind, on.clone(), &Functions::new()) {
        Ok(joined) => joined,
        Err(error) if error.to_string().contains("is not supported") => return false,
        Err(error) => panic!("seed {seed}: {error}\n{}", right),
    };
    let columns: Vec<Column> = match is_choice {
        true => left.ids(),
        false => left.ids().into_iter().chain(right.ids()).collect(),
    };
    let shown = || format!("seed {seed}: {kind} on {on:?}\n{}\n{}", right, joined);
    assert_eq!(joined.ids(), columns, "{}", shown());
    let mut expected = nested_loops((&left, &right), kind, &on, &tables);
    let mut found = rows(&joined, &tables, &[]);
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{}\n{tables:?}", shown());
    true
}

#[test]
fn the_rows_are_those_of_nested_loops() {
    let given = std::env::var("ANABRANCH_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = given.map_or(0..SEEDS, |seed| seed..seed + 1);
    let refused = seeds.filter(|seed| !agrees(*seed)).count();
    assert_eq!(refused, 0, "subqueries are not supported");
}
