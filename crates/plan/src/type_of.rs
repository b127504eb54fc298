//! `TYPEOF(value)`: the type of a value as a text, which the planner determines.

use std::sync::{Arc, LazyLock};

use anabranch_dataflow::sql_name;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, not_impl_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility, lit,
};

pub(crate) const TYPEOF: &str = "typeof";
/// The maximum length of texts and bytes in Flink.
const LENGTH_MAX: &str = "2147483647";

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        TYPEOF
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(TYPEOF, DataType::Utf8View, false)))
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(value) = args.first() else { return Ok(ExprSimplifyResult::Original(args)) };
        let long = matches!(args.get(1), Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)));
        let name = name_of(&context.get_data_type(value)?, context.nullable(value)?, long);
        Ok(ExprSimplifyResult::Simplified(lit(ScalarValue::Utf8View(Some(name)))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(field) = args.arg_fields.first() else { return not_impl_err!("a type of nothing") };
        let long = matches!(args.args.get(1), Some(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true)))));
        let name = name_of(field.data_type(), field.is_nullable(), long);
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name))))
    }
}

fn name_of(data_type: &DataType, nullable: bool, long: bool) -> String {
    let name = match (sql_name(data_type).as_str(), long) {
        ("STRING", true) => format!("VARCHAR({LENGTH_MAX})"),
        ("BYTES", true) => format!("VARBINARY({LENGTH_MAX})"),
        _ if data_type.is_null() => return "NULL".to_owned(),
        (name, _) => name.to_owned(),
    };
    if nullable { name } else { format!("{name} NOT NULL") }
}

pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let takes = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
        let signature = Signature::one_of(takes, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(TypeOf { signature }))
    });
    Arc::clone(&FUNCTION)
}
