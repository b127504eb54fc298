//! One join for a chain of joins by the same keys.
//!
//! Planners make a join of two streams of each `JOIN`. A join whose rows go to another one by the same keys
//! becomes part of that: the whole keeps the rows of its inputs, and no pairs. Joins of which event time
//! frees state stay as they are, and so do those by other keys, or by none: a condition between two inputs
//! may leave few of their pairs, which are better kept than made again.
//!
//! A row without a match (`LEFT JOIN`) must know when it gets one. That is so if the key alone decides, so a
//! further condition keeps the chain.
//!
//! Which joins are carried out at once does not depend on the number of tasks: state has the same identities
//! at any. The specification contains the joins of two, because a job may have to go on with their state.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::StageId;

use crate::{
    ChainSide, Exchange, ExchangeKind, Expr, JoinChain, JoinCondition, JoinInputSpec, MultiJoinSpec, OperatorSpec,
    Port, Stage, StreamJoinKind, StreamJoinSpec, StreamSideSpec, add_places,
};

/// A join, with all that it joins at once.
struct Joined {
    inputs: Vec<JoinInputSpec>,
    /// The stage that each input comes from.
    from: Vec<StageId>,
    conditions: Vec<JoinCondition>,
    nulls_equal: bool,
    keys: usize,
    /// Where the columns that the join emits are among those of all inputs.
    output: Vec<usize>,
    /// The stages of all joins but this one.
    stages: Vec<StageId>,
    sides: Vec<[ChainSide; 2]>,
}

/// A plan with its joins carried out at once.
#[derive(Debug, PartialEq)]
pub struct JoinedAtOnce {
    /// Its stages.
    pub stages: Vec<Stage>,
    /// Its exchanges.
    pub exchanges: Vec<Exchange>,
    /// What stages that stay are called in it.
    pub ids: BTreeMap<StageId, StageId>,
}

/// Carries out at once what chains of joins of the stages `of` do.
#[must_use]
pub fn join_at_once(stages: &[Stage], exchanges: &[Exchange], of: &BTreeSet<StageId>) -> JoinedAtOnce {
    let plan = Chains { stages, exchanges };
    let mut joined: BTreeMap<StageId, Joined> = BTreeMap::new();
    for stage in stages.iter().filter(|stage| of.contains(&stage.id)) {
        let parts = joined.iter().filter(|(id, _)| plan.feeds_one(**id));
        let of = parts.filter_map(|(id, of)| Some((*id, (of, plan.tail(*id, of)?)))).collect();
        if let Some(all) = Joined::of(stage, exchanges, &of) {
            joined.insert(stage.id, all);
        }
    }
    let parts: BTreeSet<StageId> = joined.values().flat_map(|all| all.stages.iter().copied()).collect();
    plan.replaced(&joined.into_iter().filter(|(id, all)| all.inputs.len() > 2 && !parts.contains(id)).collect())
}

/// A plan with chains of joins.
struct Chains<'a> {
    stages: &'a [Stage],
    exchanges: &'a [Exchange],
}

impl Chains<'_> {
    fn feeds_one(&self, stage: StageId) -> bool {
        self.exchanges.iter().filter(|exchange| exchange.from == stage).count() == 1
    }

    /// What follows a join in its stage, if that only drops rows and columns: conditions over the columns of
    /// all inputs, and where the columns that leave the stage are among these.
    fn tail(&self, stage: StageId, joined: &Joined) -> Option<(Vec<Expr>, Vec<usize>)> {
        let (mut conditions, mut places) = (Vec::new(), joined.output.clone());
        for operator in self.stages[stage.0 as usize].operators.iter().skip(1) {
            match operator {
                OperatorSpec::Filter { predicate, keep: None } => {
                    let reads_weight = |reads: bool, column: usize| reads || column >= places.len();
                    let mut columns = Vec::new();
                    predicate.for_each_column(&mut |column| columns.push(column));
                    if columns.into_iter().fold(false, reads_weight) {
                        return None;
                    }
                    conditions.push(predicate.with_columns_at(&|column| places[column]));
                }
                OperatorSpec::Project { columns } => {
                    let mut kept = Vec::new();
                    for (at, column) in columns.iter().enumerate() {
                        let Expr::Column(from) = column.expr else { return None };
                        match places.get(from) {
                            Some(place) => kept.push(*place),
                            // The weight, which comes last.
                            None if at + 1 == columns.len() => {}
                            None => return None,
                        }
                    }
                    places = kept;
                }
                _ => return None,
            }
        }
        Some((conditions, places))
    }

    /// The plan with joins replaced by those of all of their inputs.
    fn replaced(&self, all: &BTreeMap<StageId, Joined>) -> JoinedAtOnce {
        let gone: BTreeSet<StageId> = all.values().flat_map(|all| all.stages.iter().copied()).collect();
        let stay = || self.stages.iter().filter(|stage| !gone.contains(&stage.id));
        let ids: BTreeMap<StageId, StageId> = stay().map(|stage| stage.id).zip((0..).map(StageId)).collect();
        let mut stages: Vec<Stage> = stay().cloned().collect();
        let mut exchanges: Vec<Exchange> = Vec::new();
        for stage in &mut stages {
            let former = stage.id;
            stage.id = ids[&former];
            let inputs = self.exchanges.iter().filter(|exchange| exchange.to == former);
            let moved = |of: &Exchange| Exchange { from: ids[&of.from], to: stage.id, ..of.clone() };
            let Some(joined) = all.get(&former) else {
                exchanges.extend(inputs.map(moved));
                continue;
            };
            exchanges.extend(joined.from.iter().enumerate().map(|(input, from)| Exchange {
                from: ids[from],
                to: stage.id,
                port: Port::of_input(input),
                kind: ExchangeKind::Hash { keys: (0..joined.keys).collect() },
            }));
            exchanges.extend(inputs.filter(|exchange| exchange.port.is_side()).map(moved));
            let of_chain = joined
                .stages
                .iter()
                .enumerate()
                .map(|(place, id)| Stage { id: StageId(place as u32), ..self.stages[id.0 as usize].clone() });
            if let Some(OperatorSpec::StreamJoin(last)) = stage.operators.first() {
                let spec = joined.spec(of_chain.collect(), last);
                stage.operators[0] = OperatorSpec::MultiJoin(Box::new(spec));
                if let Some(own) = stage.origin.operators.first_mut() {
                    let parts = joined.stages.iter().map(|id| &self.stages[id.0 as usize].origin);
                    parts.for_each(|part| part.operators.iter().for_each(|of| add_places(own, of)));
                }
            }
        }
        JoinedAtOnce { stages, exchanges, ids }
    }
}

/// A side of a join: one input, or a join with all that it joins.
struct Part<'a> {
    joined: Option<&'a Joined>,
    conditions: Vec<Expr>,
    from: StageId,
    /// Where the columns of the side are among those of all of its inputs.
    places: Vec<usize>,
}

type Tails<'a> = BTreeMap<StageId, (&'a Joined, (Vec<Expr>, Vec<usize>))>;

impl Joined {
    /// What a stage joins, if all of it may be joined at once.
    fn of(stage: &Stage, exchanges: &[Exchange], parts: &Tails<'_>) -> Option<Joined> {
        let Some(OperatorSpec::StreamJoin(spec)) = stage.operators.first() else { return None };
        if !is_by_keys_alone(spec) {
            return None;
        }
        let mut all = Joined {
            inputs: Vec::new(),
            from: Vec::new(),
            conditions: Vec::new(),
            nulls_equal: spec.nulls_equal,
            keys: spec.keys,
            output: Vec::new(),
            stages: Vec::new(),
            sides: Vec::new(),
        };
        let (pads_left, pads_right) = spec.kind.pads();
        let mut places = Vec::new();
        let mut sides = Vec::new();
        for (port, side, outer) in [(Port::Main, &spec.left, pads_right), (Port::Second, &spec.right, pads_left)] {
            let mut feeds = exchanges.iter().filter(|exchange| exchange.to == stage.id && exchange.port == port);
            let (from, None) = (feeds.next()?.from, feeds.next()) else { return None };
            let part = Part::of(from, side, (spec, outer), parts);
            sides.push(all.take(part, side, outer, &mut places));
        }
        let outers = all.inputs.iter().filter(|input| input.outer).count();
        // What was emitted of rows that are forgotten stays, and only a number of matches would say so.
        if outers == all.inputs.len() || outers > 0 && all.lives_for_a_time() {
            return None;
        }
        all.sides.extend(<[ChainSide; 2]>::try_from(sides).ok());
        if let Some(filter) = &spec.filter {
            let inputs = 0..all.inputs.len();
            all.condition(filter.with_columns_at(&|column| places[column]), inputs.collect());
        }
        all.output = spec.output.iter().map(|column| places[*column]).collect();
        Some(all)
    }

    fn lives_for_a_time(&self) -> bool {
        self.inputs.iter().any(|input| input.side.time_to_live_ms.is_some())
    }

    /// Adds a side of the last join. `places`: where the columns of the sides are among those of all inputs.
    fn take(&mut self, part: Part<'_>, side: &StreamSideSpec, outer: bool, places: &mut Vec<usize>) -> ChainSide {
        let (inputs, columns) = (self.inputs.len(), self.columns());
        places.extend(part.places.iter().map(|place| place + columns));
        let Some(joined) = part.joined else {
            self.inputs.push(JoinInputSpec { side: side.clone(), outer });
            self.from.push(part.from);
            return ChainSide::Input(inputs);
        };
        let joins = self.sides.len();
        self.inputs.extend(joined.inputs.iter().cloned());
        self.from.extend(&joined.from);
        self.stages.extend(joined.stages.iter().copied().chain([part.from]));
        self.sides.extend(joined.sides.iter().map(|sides| {
            sides.map(|side| match side {
                ChainSide::Input(input) => ChainSide::Input(input + inputs),
                ChainSide::Join(join) => ChainSide::Join(join + joins),
            })
        }));
        for JoinCondition { condition, inputs: of } in &joined.conditions {
            let condition = condition.with_columns_at(&|column| column + columns);
            self.conditions.push(JoinCondition { condition, inputs: of.iter().map(|input| input + inputs).collect() });
        }
        for condition in part.conditions {
            let condition = condition.with_columns_at(&|column| column + columns);
            self.condition(condition, (inputs..self.inputs.len()).collect());
        }
        ChainSide::Join(self.sides.len() - 1)
    }

    /// Number of columns of all inputs.
    fn columns(&self) -> usize {
        self.inputs.iter().map(|input| input.side.schema.fields().len()).sum()
    }

    /// Adds a condition over the columns of all inputs: `all` those of the join that has it. What may fail is
    /// evaluated for rows that pass the conditions below.
    fn condition(&mut self, condition: Expr, all: BTreeSet<usize>) {
        let columns = self.inputs.iter().enumerate().flat_map(|(input, of)| {
            of.side.schema.fields().iter().map(move |field| (input, field.data_type().clone()))
        });
        let columns: Vec<_> = columns.collect();
        let may_fail = condition.may_fail(&|column| columns.get(column).map(|(_, of)| of.clone()));
        let mut inputs = BTreeSet::new();
        condition.for_each_column(&mut |column| _ = inputs.insert(columns[column].0));
        self.conditions.push(JoinCondition { condition, inputs: if may_fail { all } else { inputs } });
    }

    fn spec(&self, stages: Vec<Stage>, last: &StreamJoinSpec) -> MultiJoinSpec {
        MultiJoinSpec {
            keys: self.keys,
            nulls_equal: self.nulls_equal,
            inputs: self.inputs.clone(),
            conditions: self.conditions.clone(),
            output: self.output.clone(),
            chain: JoinChain { stages, last: last.clone(), sides: self.sides.clone() },
        }
    }
}

/// Whether all rows are kept, and the key alone says which of them have no match.
fn is_by_keys_alone(spec: &StreamJoinSpec) -> bool {
    let outer = matches!(spec.kind, StreamJoinKind::Left | StreamJoinKind::Right);
    let keeps = |side: &StreamSideSpec| side.expiry.is_none();
    (spec.kind == StreamJoinKind::Inner || outer && spec.filter.is_none())
        && spec.keys > 0
        && spec.versions.is_none()
        && spec.zone.is_none()
        && spec.delay_ms == 0
        && keeps(&spec.left)
        && keeps(&spec.right)
}

impl<'a> Part<'a> {
    /// A side of a join: another join if it is by the same keys.
    fn of(from: StageId, side: &StreamSideSpec, of: (&StreamJoinSpec, bool), parts: &Tails<'a>) -> Part<'a> {
        let (spec, outer) = of;
        let columns = side.schema.fields().len();
        let alone = || Part { joined: None, conditions: Vec::new(), from, places: (0..columns).collect() };
        let Some((joined, (conditions, places))) = parts.get(&from) else { return alone() };
        let same_keys = spec.keys == joined.keys && spec.nulls_equal == joined.nulls_equal;
        // For each column of all inputs, which key it is.
        let mut keys: Vec<Option<usize>> = Vec::new();
        for input in &joined.inputs {
            let columns = input.side.schema.fields().len();
            keys.extend((0..columns).map(|column| Some(column).filter(|key| *key < joined.keys && !input.outer)));
        }
        let is_key = |key: usize| places.get(key).is_some_and(|place| keys.get(*place) == Some(&Some(key)));
        let pads = joined.inputs.iter().any(|input| input.outer);
        let lives =
            joined.lives_for_a_time() || [&spec.left, &spec.right].iter().any(|of| of.time_to_live_ms.is_some());
        let is_part = same_keys && !outer && places.len() == columns && (0..spec.keys).all(is_key) && !(pads && lives);
        match is_part {
            true => Part { joined: Some(joined), conditions: conditions.clone(), from, places: places.clone() },
            false => alone(),
        }
    }
}
