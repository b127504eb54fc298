//! The definition of a function: its names, its arguments, its result, and its evaluation.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::type_coercion::binary::type_union_resolution;
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::Arguments;
use crate::call::{Call, Fails, ZoneUse};

/// Kinds of arguments: the types that an argument may have, and the type that the function receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A string, received as `Utf8View`.
    Text,
    /// A string or bytes, received as `Binary`.
    TextOrBytes,
    /// A whole number, received as `Int64`.
    Integer,
    /// Any number, received as `Float64`.
    Double,
    /// Any number, received as it is.
    Number,
    /// A date or a timestamp, received as it is.
    Moment,
    /// A timestamp, a time of day or a date, received as it is.
    Clock,
    /// Any type, received unchanged; a string as `Utf8View`.
    Any,
    /// An array, received as it is.
    Array,
    /// An array, received with elements that may be NULL.
    List,
    /// An element of the first argument, which is a [`Kind::List`].
    Element,
    /// An array, received with the common type of the elements of all arguments of this kind.
    CommonList,
    /// A map, received with values that may be NULL.
    Map,
    /// A key of the first argument, which is a [`Kind::Map`], received as the common type of both.
    Key,
    /// A map, received with the common types of the keys and values of all arguments of this kind.
    CommonMap,
    /// A key or a value, in turns: received as the common type of all keys, or of all values.
    KeyOrValue,
    /// Any type, received as the common type of all arguments of this kind, as Flink has it.
    Common,
    /// A truth value.
    Flag,
    /// Any type, received as the common type of all arguments of this kind.
    Alike,
}

/// The type of a function's results.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Returns {
    Text,
    Bytes,
    Boolean,
    Int,
    BigInt,
    Double,
    /// The type of the first argument.
    First,
    /// Derived from the arguments' types and the values of constants.
    Of(fn(&ReturnFieldArgs) -> Result<DataType>),
}

/// A function of SQL.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// In lower case.
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    /// The lists of arguments that it takes.
    pub(crate) takes: &'static [&'static [Kind]],
    /// Whether the last argument of the longest list may be repeated.
    pub(crate) variadic: bool,
    pub(crate) returns: Returns,
    /// Whether it may have another value at each evaluation.
    pub(crate) varies: bool,
    pub(crate) fails: Fails,
    pub(crate) zone: ZoneUse,
    /// Returns one value per row; one row if all arguments are constants.
    pub(crate) evaluate: fn(&Arguments) -> Result<ArrayRef>,
}

/// A function without aliases and with a fixed number of arguments, that some values make fail, and that does
/// not depend on the time zone.
pub(crate) const fn function(
    name: &'static str,
    takes: &'static [&'static [Kind]],
    returns: Returns,
    evaluate: fn(&Arguments) -> Result<ArrayRef>,
) -> Definition {
    let (fails, zone) = (Fails::Maybe, ZoneUse::None);
    Definition { name, aliases: &[], takes, variadic: false, returns, varies: false, fails, zone, evaluate }
}

impl Definition {
    /// With other names.
    pub(crate) const fn also(self, aliases: &'static [&'static str]) -> Definition {
        Definition { aliases, ..self }
    }

    /// The last argument of the longest list may be repeated.
    pub(crate) const fn variadic(self) -> Definition {
        Definition { variadic: true, ..self }
    }

    /// It may have another value at each evaluation.
    pub(crate) const fn varies(self) -> Definition {
        Definition { varies: true, ..self }
    }

    /// It gives a value or NULL for all arguments.
    pub(crate) const fn never_fails(self) -> Definition {
        Definition { fails: Fails::Never, ..self }
    }

    /// Values make it fail only in such calls.
    pub(crate) const fn fails_if(self, condition: fn(&Call<'_>) -> bool) -> Definition {
        Definition { fails: Fails::If(condition), ..self }
    }

    /// It reads an instant as a local time.
    pub(crate) const fn reads_local_time(self) -> Definition {
        Definition { zone: ZoneUse::LocalTime, ..self }
    }

    /// Another function does it in a time zone.
    pub(crate) const fn in_zone(self, zone: ZoneUse) -> Definition {
        Definition { zone, ..self }
    }
}

/// There is one definition of each name.
impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Definition {}

impl std::hash::Hash for Definition {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// An error of a value or of a call.
pub(crate) fn failure(message: impl Into<String>) -> DataFusionError {
    DataFusionError::Execution(message.into())
}

impl Kind {
    /// The type in which the function receives an argument of type `given`.
    pub(crate) fn accept(self, given: &DataType) -> Option<DataType> {
        let is_bytes = matches!(given, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        let is_moment = matches!(given, DataType::Date32 | DataType::Timestamp(..));
        match self {
            _ if given.is_null() => Some(self.of_null()),
            Kind::Text if given.is_string() => Some(DataType::Utf8View),
            Kind::TextOrBytes if given.is_string() || is_bytes => Some(DataType::Binary),
            Kind::Integer if given.is_integer() => Some(DataType::Int64),
            Kind::Double if given.is_numeric() => Some(DataType::Float64),
            Kind::Number if given.is_numeric() => Some(given.clone()),
            Kind::Moment if is_moment => Some(given.clone()),
            Kind::Clock if is_moment || matches!(given, DataType::Time32(_) | DataType::Time64(_)) => {
                Some(given.clone())
            }
            Kind::Array if matches!(given, DataType::List(_)) => Some(given.clone()),
            Kind::Flag if *given == DataType::Boolean => Some(DataType::Boolean),
            Kind::Any if given.is_string() => Some(DataType::Utf8View),
            Kind::Any | Kind::Alike => Some(given.clone()),
            _ => None,
        }
    }

    fn of_null(self) -> DataType {
        match self {
            Kind::Text | Kind::Any => DataType::Utf8View,
            Kind::TextOrBytes => DataType::Binary,
            Kind::Integer => DataType::Int64,
            Kind::Double | Kind::Number => DataType::Float64,
            Kind::Moment | Kind::Clock => DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None),
            Kind::Flag => DataType::Boolean,
            Kind::Array | Kind::List | Kind::Element | Kind::CommonList | Kind::Common | Kind::Alike => DataType::Null,
            Kind::Map | Kind::Key | Kind::CommonMap | Kind::KeyOrValue => DataType::Null,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Kind::Text => "STRING",
            Kind::TextOrBytes => "STRING or BYTES",
            Kind::Integer => "BIGINT",
            Kind::Double => "DOUBLE",
            Kind::Number => "a number",
            Kind::Moment => "DATE or TIMESTAMP",
            Kind::Clock => "TIMESTAMP or TIME",
            Kind::Array | Kind::List | Kind::CommonList => "ARRAY",
            Kind::Map | Kind::CommonMap => "MAP",
            Kind::Element => "an element",
            Kind::Key => "a key",
            Kind::Flag => "BOOLEAN",
            Kind::Any | Kind::Common | Kind::Alike | Kind::KeyOrValue => "value",
        }
    }
}

impl Definition {
    fn accept(&self, given: &[DataType]) -> Option<Vec<DataType>> {
        self.takes.iter().find_map(|kinds| {
            let repeated = self.variadic && given.len() > kinds.len();
            if given.len() != kinds.len() && !repeated {
                return None;
            }
            let (Some(first), Some(last)) = (kinds.first(), kinds.last()) else { return Some(Vec::new()) };
            let all = kinds.iter().chain(std::iter::repeat(last)).copied().take(given.len());
            match first {
                _ if *last == Kind::Alike => {
                    let common = type_union_resolution(given).filter(|common| !common.is_nested())?;
                    Some(vec![common; given.len()])
                }
                Kind::List | Kind::CommonList | Kind::Common => crate::array::coerce(&all.collect::<Vec<_>>(), given),
                Kind::Map | Kind::CommonMap | Kind::KeyOrValue => crate::map::coerce(&all.collect::<Vec<_>>(), given),
                _ => given.iter().zip(all).map(|(data_type, kind)| kind.accept(data_type)).collect(),
            }
        })
    }

    fn usage(&self) -> String {
        let list = |kinds: &&[Kind]| {
            let kinds: Vec<_> = kinds.iter().map(|kind| kind.text()).collect();
            format!("{}({}{})", self.name.to_uppercase(), kinds.join(", "), if self.variadic { ", ..." } else { "" })
        };
        self.takes.iter().map(list).collect::<Vec<_>>().join(" or ")
    }
}

impl ScalarUDFImpl for Definition {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        const fn signature(volatility: Volatility) -> Signature {
            let type_signature = datafusion_expr::TypeSignature::UserDefined;
            Signature { type_signature, volatility, parameter_names: None }
        }
        static REPEATABLE: Signature = signature(Volatility::Immutable);
        static VARYING: Signature = signature(Volatility::Volatile);
        if self.varies { &VARYING } else { &REPEATABLE }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal(format!("{} has the type of its fields", self.name)))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = match self.returns {
            Returns::Text => DataType::Utf8View,
            Returns::Bytes => DataType::Binary,
            Returns::Boolean => DataType::Boolean,
            Returns::Int => DataType::Int32,
            Returns::BigInt => DataType::Int64,
            Returns::Double => DataType::Float64,
            Returns::First => {
                let first = args.arg_fields.first();
                first.map(|field| field.data_type().clone()).ok_or_else(|| failure("an argument is missing"))?
            }
            Returns::Of(returns) => returns(&args)?,
        };
        Ok(arrow::datatypes::Field::new(self.name, data_type, true).into())
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = if self.name == "make_map" { "MAP[...]".to_owned() } else { self.name.to_uppercase() };
        if crate::array::compares_elements(self.name) && arg_types.iter().any(crate::map::has_map) {
            return Err(DataFusionError::Plan(format!(
                "{name} compares elements, and those of the array are maps; use a value of each map"
            )));
        }
        self.accept(arg_types).ok_or_else(|| {
            let usage = if self.name == "make_map" { "MAP[key, value, ...]".to_owned() } else { self.usage() };
            let message =
                format!("{name} does not take these arguments; write {usage}, with CAST where a type differs");
            DataFusionError::Plan(message)
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        // Of a function that varies, each row has a value of its own, but for the clock.
        let constant = constant && (!self.varies || args.args.is_empty());
        let rows = if constant { 1 } else { args.number_rows };
        let arguments = Arguments::new(&args.args, rows, args.return_field.data_type())?;
        let values = (self.evaluate)(&arguments)?;
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)
        } else {
            ColumnarValue::Array(values)
        })
    }
}
