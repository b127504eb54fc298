use std::collections::BTreeSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float64Type, Int32Type, Schema, TimeUnit, TimestampMillisecondType,
};

use super::*;
use crate::generator::Request;
use crate::generator::load::{ROWS_PER_SECOND, Timeline};

const ROWS: usize = 500;
const NOW_MS: i64 = 1_704_067_200_000;

fn spec(options: &[(&str, &str)]) -> ConnectorSpec {
    ConnectorSpec::new("faker", options)
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn refusal(columns: &[(&str, DataType)], options: &[(&str, &str)]) -> String {
    read(&spec(options), &schema(columns)).err().unwrap().to_string()
}

/// The column of an expression.
fn values(data_type: DataType, expression: &str) -> Result<ArrayRef> {
    let (_, columns) = read(&spec(&[("fields.x.expression", expression)]), &schema(&[("x", data_type)]))?;
    let Generated::Expression { expression, path } = &columns[0].content else { panic!("no expression") };
    let cells = Cells { numbers: (0..ROWS as u64).collect(), times_ms: vec![NOW_MS; ROWS] };
    generate(expression, path, &columns[0], &cells)
}

fn texts_of(expression: &str) -> Vec<String> {
    let array = values(DataType::Utf8View, expression).unwrap();
    array.as_string_view().iter().map(|text| text.unwrap().to_owned()).collect()
}

/// Every value matches, and there are so many different ones at least.
fn check(expression: &str, pattern: &str, different: usize) {
    let matches = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
    let texts = texts_of(expression);
    for text in &texts {
        assert!(matches.is_match(text), "{text} of {expression}");
    }
    let found = texts.iter().collect::<BTreeSet<_>>().len();
    assert!(found >= different, "{expression}: {found} different values");
    assert_eq!(texts, texts_of(expression), "the same numbers give the same values");
}

#[test]
fn expressions_of_recipes_give_what_they_say() {
    check("#{Name.fullName}", r"(Mrs?\. |Ms\. |Dr\. )?\w+ \w+", 300);
    check("#{superhero.name}", r"[A-Z][\w ]+", 10);
    check("#{harry_potter.characters}", r"[A-Z][\w ]+", 20);
    check("#{GameOfThrones.house}", r"[A-Z].*", 10);
    check("#{number.numberBetween '5','8'}", "[567]", 3);
    check("#{Number.number_between '7','7'}", "7", 1);
    check("#{number.randomDouble '2','1','150'}", r"\d{1,3}\.\d{2}", 300);
    check(
        "#{regexify '(GET|POST|PUT|PATCH){1}'} #{regexify '(/a\\.html|/b){1}'}",
        r"(GET|POST|PUT|PATCH) (/a\.html|/b)",
        8,
    );
    check("#{Options.option 'chrome', 'firefox', 'safari')}", "chrome|firefox|safari", 3);
    check("/#{GreekPhilosopher.name}.html", r"/[A-Z]\w+\.html", 10);
    check("#{numerify 'user_##'}", r"user_\d\d", 90);
    check("#{bothify '????##@gmail.com'}", r"[a-z]{4}\d\d@gmail\.com", 400);
    check("#{letterify '??','true'}", "[A-Z]{2}", 200);
    check("#{Internet.uuid}", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", ROWS);
    check("#{Internet.emailAddress}", r"[a-z0-9._]+@example\.(com|org|net)", 300);
    check("#{Internet.publicIpV4Address}", r"\d+\.\d+\.\d+\.\d+", 490);
    check("#{Commerce.price}", r"\d{1,2}\.\d{2}|100\.00", 300);
    check("#{Finance.iban}", r"[A-Z]{2}\d{20}", 490);
    check("#{Address.fullAddress}", r"\d+ [A-Z]\w+ [A-Z]\w+, [A-Z]\w+, [A-Z]{2} \d{5}", 490);
    check("#{lorem.words '4'}", r"\w+ \w+ \w+ \w+", 490);
    check("#{lorem.sentence}", r"\w+( \w+){3,9}\.", 490);
    check("#{Lorem.characters '12'}", "[a-z0-9]{12}", 490);
    check("#{date.past '15','5','SECONDS'}", r"2023-12-31 23:59:(4[5-9]|5[0-5])\.\d{3}", 490);
    check("-", "-", 1);
    check("", "", 1);
}

#[test]
fn columns_have_their_types() {
    let number = values(DataType::Int32, "#{number.numberBetween '-5','5'}").unwrap();
    assert!(number.as_primitive::<Int32Type>().values().iter().all(|number| (-5..5).contains(number)));
    let double = values(DataType::Float64, "#{Number.randomDouble '3','1','2'}").unwrap();
    assert!(double.as_primitive::<Float64Type>().values().iter().all(|number| (1.0..=2.0).contains(number)));
    let decimal = values(DataType::Decimal128(6, 4), "#{Number.randomDouble '4','0','10'}").unwrap();
    assert!(decimal.as_primitive::<Decimal128Type>().values().iter().all(|number| (0..=100_000).contains(number)));
    let flags = values(DataType::Boolean, "#{Options.option 'True','false','maybe'}").unwrap();
    assert!((100..250).contains(&flags.as_boolean().true_count()));
    for zone in [None, Some("UTC".into())] {
        let data_type = DataType::Timestamp(TimeUnit::Millisecond, zone);
        let past = values(data_type.clone(), "#{date.past '15','5','SECONDS'}").unwrap();
        let past = past.as_primitive::<TimestampMillisecondType>().values().to_vec();
        assert!(past.iter().all(|ms| (NOW_MS - 15_000..=NOW_MS - 5_000).contains(ms)), "{past:?}");
        let future = values(data_type, "#{date.future '2','HOURS'}").unwrap();
        let future = future.as_primitive::<TimestampMillisecondType>().values().to_vec();
        assert!(future.iter().all(|ms| (NOW_MS..=NOW_MS + 7_200_000).contains(ms)));
    }
    let days = values(DataType::Date32, "#{date.past '100' 'DAYS'}").unwrap();
    assert!(days.as_primitive::<Date32Type>().values().iter().all(|day| (19_623..=19_723).contains(day)));
    let error = values(DataType::Int32, "#{Name.firstName}").unwrap_err().to_string();
    assert!(error.contains("the expression of column 'x' gives '") && error.contains("which is no INT"), "{error}");
}

#[test]
fn collections_nulls_and_parts_of_rows() {
    let item = Arc::new(Field::new("item", DataType::Utf8View, true));
    let entries = vec![Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Int32, true)];
    let entries = Arc::new(Field::new("entries", DataType::Struct(entries.into()), false));
    let row = DataType::Struct(vec![Field::new("city", DataType::Utf8View, true)].into());
    let columns = [("spells", DataType::List(item)), ("sizes", DataType::Map(entries, false)), ("at", row)];
    let options = [
        ("fields.spells.expression", "#{harry_potter.spell}"),
        ("fields.spells.length", "3"),
        ("fields.spells.null-rate", "0.3"),
        ("fields.sizes.key.expression", "#{Color.name}"),
        ("fields.sizes.value.expression", "#{number.numberBetween '0','9'}"),
        ("fields.sizes.length", "2"),
        ("fields.at.city.expression", "#{Address.city}"),
    ];
    let (load, read_columns) = read(&spec(&options), &schema(&columns)).unwrap();
    assert_eq!(load.rate, Some(ROWS_PER_SECOND));
    let timeline = Timeline::At(NOW_MS);
    let request = Request { partition: 0, partitions: 1, first: 0, count: ROWS, timeline };
    let generated = crate::generator::datagen::rows(read_columns, schema(&columns), &request).unwrap();
    let batch: RecordBatch = generated.batch;
    let spells = batch.column(0).as_list::<i32>();
    assert!((100..200).contains(&spells.null_count()));
    assert!(spells.iter().flatten().all(|list| list.len() == 3 && list.null_count() == 0));
    assert!(batch.column(1).as_map().iter().flatten().all(|map| (1..=2).contains(&map.len())));
    assert_eq!(batch.column(2).as_struct().column(0).null_count(), 0);
}

#[test]
fn what_does_not_fit_is_refused_and_names_the_nearest() {
    let text = [("x", DataType::Utf8View)];
    let with = |expression: &str| refusal(&text, &[("fields.x.expression", expression)]);
    let error = with("#{Name.fulName}");
    assert!(
        error.contains("there is no provider 'Name.fulName'") && error.contains("did you mean 'Name.fullName'?"),
        "{error}"
    );
    assert!(error.contains("option 'fields.x.expression'"), "{error}");
    assert!(with("#{Nonsense.at_all}").contains("providers are in: Address, "));
    assert!(with("#{Name.fullName").contains("has no closing brace"));
    assert!(with("#{number.numberBetween 1,2}").contains("'1,2' is no argument in quotes"));
    assert!(with("#{number.numberBetween '9','2'}").contains("the larger number comes second"));
    assert!(with("#{number.numberBetween 'a'}").contains("'a' is no whole number"));
    assert!(with("#{date.past '5','WEEKS'}").contains("units are MILLISECONDS, SECONDS"));
    assert!(with("#{date.past '1099511627775','DAYS'}").contains("give how far at most"));
    assert!(with("#{date.past '5','15','SECONDS'}").contains("how far at least"));
    assert!(with("#{Name.firstName 'x'}").contains("takes none"));
    assert!(with("#{regexify '(a'}").contains("a group has no ')'"));
    assert!(refusal(&text, &[]).contains("column 'x' has no expression"));
    let more = |name, value| refusal(&text, &[("fields.x.expression", "-"), (name, value)]);
    assert!(more("fields.y.expression", "-").contains("option 'fields.y.expression' names no column"));
    assert!(more("fields.x.length", "2").contains("option 'fields.x.length' names no column, or does not fit"));
    assert!(more("fields.x.null-rate", "1.5").contains("give a number from 0 to 1"));
    assert!(more("row-per-second", "5").contains("did you mean 'rows-per-second'?"));
}
