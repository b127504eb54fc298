//! Operators that give any number of rows for each row.

use std::fmt;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::list::List;
use crate::spec::named;
use crate::{Expr, NamedExpr};

/// The rows of `VALUES`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValuesSpec {
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// Each row: an expression for each column, of the column's type, that reads no column of the input.
    pub rows: Vec<Vec<Expr>>,
}

/// Each row as often as one of its columns says, without that column; not at all if it is not positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatSpec {
    /// The last column of the input, BIGINT.
    pub copies: usize,
    /// The rows have weights in this column: the number is in the weight of the row then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<usize>,
}

/// The groupings of `GROUPING SETS`: a row of the output has the columns of the input, the keys of one
/// grouping with NULL for the others, and the grouping's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpandSpec {
    /// Keys of any grouping, over the input. They can be NULL.
    pub keys: Vec<NamedExpr>,
    /// The groupings, in their order.
    pub groupings: Vec<Grouping>,
    /// The column of the grouping's number, of an unsigned type.
    pub number: Field,
}

/// A grouping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grouping {
    /// Indexes of its keys.
    pub keys: Vec<usize>,
    /// Its number.
    pub number: u64,
}

impl ExpandSpec {
    /// Columns of the output, for this input.
    #[must_use]
    pub fn output_schema(&self, input: &Schema) -> Schema {
        let mut fields: Vec<Field> = input.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.extend(self.keys.iter().map(|key| Field::new(&key.name, key.data_type.clone(), true)));
        fields.push(self.number.clone());
        Schema::new(fields)
    }
}

/// `UNNEST`: a row of the output has columns of the input and those of one element of an array or a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnnestSpec {
    /// The array or the map, over the input.
    pub value: Expr,
    /// Type of `value`.
    pub data_type: DataType,
    /// Columns of the input, before those of the element.
    pub keep: Vec<usize>,
    /// Columns of an element: the fields of a row, key and value of an entry, or a column for any other
    /// value.
    pub element: SchemaRef,
    /// After them comes the number of the element, from 1 on.
    pub ordinality: bool,
    /// A row without elements appears once, with NULL for them.
    pub outer: bool,
}

/// Name of the column of the number of an element.
pub const ORDINALITY: &str = "ORDINALITY";

impl UnnestSpec {
    /// Columns of the output, for this input.
    #[must_use]
    pub fn output_schema(&self, input: &Schema) -> Schema {
        let mut fields: Vec<Field> = self.keep.iter().map(|index| input.field(*index).clone()).collect();
        let element = self.element.fields().iter().map(|field| field.as_ref().clone());
        let number = self.ordinality.then(|| Field::new(ORDINALITY, DataType::Int32, false));
        let nullable = |field: Field| if self.outer { field.with_nullable(true) } else { field };
        fields.extend(element.chain(number).map(nullable));
        Schema::new(fields)
    }
}

impl fmt::Display for ValuesSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        write!(f, "values [{}]:", List(self.schema.fields().iter().map(|field| field.name())))?;
        for (i, row) in self.rows.iter().take(SHOWN).enumerate() {
            write!(f, "{} ({})", if i == 0 { "" } else { "," }, List(row))?;
        }
        match self.rows.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for ExpandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("groupings of ")?;
        named(f, &self.keys)?;
        f.write_str(":")?;
        for grouping in &self.groupings {
            let name = |key: &usize| self.keys.get(*key).map_or("?", |key| key.name.as_str());
            write!(f, " ({})", List(grouping.keys.iter().map(name)))?;
        }
        Ok(())
    }
}

impl fmt::Display for UnnestSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = List(self.element.fields().iter().map(|field| field.name()));
        write!(f, "unnest {} as [{columns}]", self.value)?;
        if self.ordinality {
            f.write_str(" with number")?;
        }
        if self.outer {
            f.write_str(", also of rows without elements")?;
        }
        Ok(())
    }
}
