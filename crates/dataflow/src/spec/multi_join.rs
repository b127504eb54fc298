//! Join of several streams at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_model::StageId;
use arrow_schema::Schema;
use serde::{Deserialize, Serialize};

use super::key::nulls;
use super::stream_join::JOIN_REMEDY;
use crate::list::List;
use crate::{
    Exchange, ExchangeKind, Expr, Growth, JoinedAtOnce, KeySide, OperatorSpec, PartKey, Plan, Port, Stage, StateBound,
    Stateful, StreamJoinSpec, StreamSideSpec, join_at_once,
};

/// Join of several streams by the same keys, over all rows so far. It keeps the rows of its inputs, and no
/// pairs.
///
/// Input: rows of several ports, the keys first, with a weight if they are updating. Columns of all inputs,
/// without weights, are numbered one input after the other.
///
/// Output: that of the last join of the `chain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MultiJoinSpec {
    /// Number of key columns, the first ones of each input.
    pub keys: usize,
    /// NULL equals NULL. Otherwise, a row with a NULL among its keys matches none.
    pub nulls_equal: bool,
    /// The inputs, by their ports.
    pub inputs: Vec<JoinInputSpec>,
    /// Further conditions, in an order in which they may be evaluated.
    pub conditions: Vec<JoinCondition>,
    /// Output columns, as indexes into those of all inputs.
    pub output: Vec<usize>,
    /// The joins of two inputs that it stands for.
    pub chain: JoinChain,
}

/// One input of a join of several streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinInputSpec {
    /// Its rows, which never expire.
    pub side: StreamSideSpec,
    /// Keys without a row of this input appear with NULL for its columns.
    pub outer: bool,
}

/// A condition of a join of several streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinCondition {
    /// Over the columns of all inputs.
    pub condition: Expr,
    /// The inputs whose rows must be there before it is evaluated.
    pub inputs: BTreeSet<usize>,
}

/// Joins of two inputs each that give the same rows as a join of all: a plan may have them in its place. A
/// job whose checkpoint has the state of such joins goes on with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinChain {
    /// The stages of all joins but the last, which feed further ones. Their ids are their places here.
    pub stages: Vec<Stage>,
    /// The last join.
    pub last: StreamJoinSpec,
    /// What feeds both sides of each join, those of the last one at the end.
    pub sides: Vec<[ChainSide; 2]>,
}

/// What feeds a side of a join of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainSide {
    /// An input of the whole.
    Input(usize),
    /// A join of the chain.
    Join(usize),
}

impl MultiJoinSpec {
    /// Whether the output has weights.
    #[must_use]
    pub fn is_updating(&self) -> bool {
        self.chain.last.is_updating()
    }

    /// Columns of the output.
    #[must_use]
    pub fn output_schema(&self) -> Schema {
        self.chain.last.output_schema()
    }

    /// The number of the first column of each input, and the number of all columns.
    #[must_use]
    pub fn first_columns(&self) -> Vec<usize> {
        let lengths = self.inputs.iter().map(|input| input.side.schema.fields().len());
        let first = lengths.scan(0, |first, length| Some(std::mem::replace(first, *first + length)));
        let mut first: Vec<usize> = first.collect();
        let last = self.inputs.last().map_or(0, |input| input.side.schema.fields().len());
        first.push(first.last().map_or(0, |first| first + last));
        first
    }

    /// The input that has a column, and its place there.
    #[must_use]
    pub fn place(&self, column: usize) -> (usize, usize) {
        let first = self.first_columns();
        let input = first.partition_point(|first| *first <= column).saturating_sub(1);
        (input, column - first[input])
    }
}

/// What checkpoints know a [`MultiJoinSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct MultiJoinKey {
    pub keys: usize,
    pub inputs: Vec<KeyInput>,
    pub nulls_equal: bool,
}

/// An input of a join of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyInput {
    /// Keys without a row of it appear.
    pub outer: bool,
    /// Its rows.
    pub side: KeySide,
}

impl Stateful for MultiJoinSpec {
    fn key(&self) -> PartKey {
        let input = |of: &JoinInputSpec| KeyInput { outer: of.outer, side: KeySide::from(&of.side) };
        PartKey::MultiJoin(MultiJoinKey {
            keys: self.keys,
            inputs: self.inputs.iter().map(input).collect(),
            nulls_equal: self.nulls_equal,
        })
    }

    fn kept(&self) -> StateBound {
        StateBound::new(format!("all rows of its {} inputs", self.inputs.len()), Growth::WithRows)
    }

    fn time_to_live_ms(&self) -> Option<i64> {
        let of_inputs = self.inputs.iter().map(|input| input.side.time_to_live_ms);
        of_inputs.reduce(|of, next| Some(of?.max(next?))).flatten()
    }

    fn lives_by_row(&self) -> bool {
        true
    }

    fn remedy(&self) -> &'static str {
        JOIN_REMEDY
    }
}

impl fmt::Display for MultiJoinSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first_columns();
        write!(f, "join of {} inputs on ", self.inputs.len())?;
        for key in 0..self.keys {
            let equal: Vec<String> =
                first[..self.inputs.len()].iter().map(|first| format!("#{}", first + key)).collect();
            write!(f, "{}{}", if key == 0 { "" } else { " AND " }, equal.join(" = "))?;
        }
        for (number, _) in self.inputs.iter().enumerate().filter(|(_, input)| input.outer) {
            write!(f, ", input {} or NULL from #{}", number + 1, first[number])?;
        }
        for (number, JoinCondition { condition, .. }) in self.conditions.iter().enumerate() {
            write!(f, "{}{condition}", if number == 0 { " where " } else { " AND " })?;
        }
        for (number, input) in self.inputs.iter().enumerate() {
            crate::spec::time_to_live(f, &format!("rows of input {}", number + 1), input.side.time_to_live_ms)?;
        }
        let column = |column: &usize| {
            let (input, place) = self.place(*column);
            format!("#{column} {}", self.inputs[input].side.schema.field(place).name())
        };
        write!(f, ": [{}]", List(self.output.iter().map(column)))
    }
}

impl Stage {
    /// The join of several streams that its chain begins with, if it does.
    #[must_use]
    pub fn multi_join(&self) -> Option<&MultiJoinSpec> {
        match self.operators.first() {
            Some(OperatorSpec::MultiJoin(spec)) => Some(spec),
            _ => None,
        }
    }
}

/// A plan in which joins of several streams are divided.
struct Divided {
    stages: Vec<Stage>,
    exchanges: Vec<Exchange>,
    /// What stages are called in it; of a join that is divided, the last one.
    ids: BTreeMap<StageId, StageId>,
}

impl Divided {
    fn new(plan: &Plan, of: &BTreeSet<StageId>) -> Divided {
        let mut divided = Divided { stages: Vec::new(), exchanges: Vec::new(), ids: BTreeMap::new() };
        // The join that an input of a former join goes to, and its port there.
        let mut inputs: BTreeMap<(StageId, usize), (StageId, Port)> = BTreeMap::new();
        for stage in &plan.stages {
            match stage.multi_join().filter(|_| of.contains(&stage.id)) {
                Some(spec) => divided.push_chain(stage, spec, &mut inputs),
                None => divided.push(stage.id, stage.clone()),
            }
        }
        let Divided { stages, mut exchanges, ids } = divided;
        exchanges.extend(plan.exchanges.iter().map(|exchange| {
            let input = exchange.port.input().and_then(|input| inputs.get(&(exchange.to, input)));
            let (to, port) = input.copied().unwrap_or((ids[&exchange.to], exchange.port));
            Exchange { from: ids[&exchange.from], to, port, ..exchange.clone() }
        }));
        exchanges.sort_by_key(|exchange| (exchange.to, exchange.port.input().unwrap_or(usize::MAX)));
        Divided { stages, exchanges, ids }
    }

    fn push(&mut self, former: StageId, stage: Stage) {
        let id = StageId(self.stages.len() as u32);
        self.ids.insert(former, id);
        self.stages.push(Stage { id, ..stage });
    }

    fn push_chain(
        &mut self,
        stage: &Stage,
        spec: &MultiJoinSpec,
        inputs: &mut BTreeMap<(StageId, usize), (StageId, Port)>,
    ) {
        let (chain, first) = (&spec.chain, self.stages.len());
        let id = |place: usize| StageId((first + place) as u32);
        self.stages.extend((0..).zip(&chain.stages).map(|(place, stage)| Stage { id: id(place), ..stage.clone() }));
        let mut last = stage.clone();
        last.operators[0] = OperatorSpec::StreamJoin(chain.last.clone());
        self.push(stage.id, last);
        for (join, sides) in chain.sides.iter().enumerate() {
            for (port, side) in [Port::Main, Port::Second].into_iter().zip(sides) {
                let to = id(join);
                match side {
                    ChainSide::Input(input) => _ = inputs.insert((stage.id, *input), (to, port)),
                    ChainSide::Join(from) => {
                        let kind = ExchangeKind::Hash { keys: (0..spec.keys).collect() };
                        self.exchanges.push(Exchange { from: id(*from), to, port, kind });
                    }
                }
            }
        }
    }

    fn plan(self, of: &Plan) -> Plan {
        let Divided { stages, exchanges, .. } = self;
        of.again(stages, exchanges)
    }
}

impl Plan {
    /// The plan in which the joins of several streams of these stages are [joins of two](JoinChain) each.
    #[must_use]
    pub fn with_joins_of_two(&self, of: &BTreeSet<StageId>) -> Plan {
        Divided::new(self, of).plan(self)
    }

    /// The plan in which the last joins of the [chain](JoinChain) for which a join of several streams stands
    /// are joins of two. The others are carried out at once.
    #[must_use]
    pub fn with_last_joins_of_two(&self, stage: StageId, last: usize) -> Plan {
        let divided = Divided::new(self, &BTreeSet::from([stage]));
        let joins = self.stage(stage).multi_join().map_or(0, |spec| spec.chain.sides.len());
        let end = divided.ids.get(&stage).map_or(0, |id| id.0 as usize + 1);
        let at_once = end.saturating_sub(joins)..end.saturating_sub(last);
        let at_once = at_once.map(|id| StageId(id as u32)).collect();
        let JoinedAtOnce { stages, exchanges, .. } = join_at_once(&divided.stages, &divided.exchanges, &at_once);
        Divided { stages, exchanges, ..divided }.plan(self)
    }
}

impl fmt::Display for MultiJoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "join by {} columns of ", self.keys)?;
        for (i, input) in self.inputs.iter().enumerate() {
            write!(f, "{}{input}", if i == 0 { "" } else { " and " })?;
        }
        f.write_str(nulls(self.nulls_equal))
    }
}

impl fmt::Display for KeyInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.outer { "outer " } else { "" }, self.side)
    }
}
