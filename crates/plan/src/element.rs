//! `ARRAY[a, b]`, `MAP['a', 1]`, `array[1]`, `map['key']` and `row['field']`.

use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF, lit};

use crate::maps::shown;
use crate::place::through;
use crate::rel::without_numbers;

/// Plans array and map constructors, and access by brackets.
#[derive(Debug)]
pub(crate) struct ElementPlanner {
    /// `(a, b, ...)`.
    pub(crate) make_array: Arc<ScalarUDF>,
    /// `(key, value, ...)`.
    pub(crate) make_map: Arc<ScalarUDF>,
    /// `(array, index)` or `(map, key)`.
    pub(crate) item: Arc<ScalarUDF>,
    /// `(row, name)`.
    pub(crate) get_field: Arc<ScalarUDF>,
}

impl ExprPlanner for ElementPlanner {
    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        if exprs.is_empty() {
            let error = Error::user("ARRAY[] has no type: it needs an element");
            return Err(through(error.remedy("write ARRAY_REMOVE(ARRAY[0], 0) for an empty ARRAY<INT>")));
        }
        let types = exprs.iter().map(|expr| expr.get_type(schema)).collect::<Result<Vec<_>>>()?;
        if self.make_array.coerce_types(&types).is_err() {
            let types: Vec<String> = types.iter().map(sql_name).collect();
            let error = Error::user(format!("the elements of an ARRAY have no common type: {}", types.join(", ")));
            return Err(through(error.remedy("convert them to one type with CAST")));
        }
        let call = ScalarFunction::new_udf(Arc::clone(&self.make_array), exprs);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }

    fn plan_make_map(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let call = ScalarFunction::new_udf(Arc::clone(&self.make_map), args);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let data_type = access.expr.get_type(schema)?;
        let RawFieldAccessExpr { expr, field_access } = access;
        let (function, key) = match (field_access, &data_type) {
            (GetFieldAccess::ListIndex { key }, DataType::List(_)) => {
                check_index(&expr, &key)?;
                (&self.item, *key)
            }
            (GetFieldAccess::ListIndex { key }, DataType::Map(..)) => {
                self.check_key(&expr, &data_type, &key, schema)?;
                (&self.item, *key)
            }
            (GetFieldAccess::NamedStructField { name }, DataType::Map(..)) => {
                let key = lit(name);
                self.check_key(&expr, &data_type, &key, schema)?;
                (&self.item, key)
            }
            (GetFieldAccess::NamedStructField { name }, DataType::Struct(_)) => (&self.get_field, lit(name)),
            (GetFieldAccess::ListRange { .. }, _) => {
                let error = Error::user(format!("a range of the elements of {} is not supported yet", written(&expr)));
                return Err(through(error.remedy("name one element, such as a[1]")));
            }
            _ => {
                let error =
                    Error::user(format!("{} is {}, which has no such element", written(&expr), sql_name(&data_type)));
                return Err(through(
                    error.remedy("an ARRAY has a[1], a[2], ...; a MAP has m['key']; a ROW has r.field"),
                ));
            }
        };
        let call = ScalarFunction::new_udf(Arc::clone(function), vec![expr, key]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

impl ElementPlanner {
    /// Refuses a key whose type cannot be compared with the map's keys.
    fn check_key(&self, map: &Expr, data_type: &DataType, key: &Expr, schema: &DFSchema) -> Result<()> {
        let given = key.get_type(schema)?;
        if self.item.coerce_types(&[data_type.clone(), given.clone()]).is_ok() {
            return Ok(());
        }
        let (map, map_type, given) = (shown(map), sql_name(data_type), sql_name(&given));
        let error = Error::user(format!("{map} is {map_type}, and the key is {given}"));
        Err(through(error.remedy("convert the key with CAST")))
    }
}

/// An expression with the users' names of columns.
fn written(expr: &Expr) -> String {
    without_numbers(&expr.to_string()).into_owned()
}

/// Positions count from 1. A constant below that is an error, as in Flink; a computed one gives NULL.
fn check_index(array: &Expr, key: &Expr) -> Result<()> {
    match key {
        Expr::Literal(ScalarValue::Int64(Some(place)), _) if *place < 1 => {
            let error = Error::user(format!(
                "the elements of {} are numbered from 1, and there is no element {place}",
                written(array)
            ));
            Err(through(error.remedy("the first element is a[1]")))
        }
        _ => Ok(()),
    }
}
