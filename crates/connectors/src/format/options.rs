//! The options of a format, by their own names and by Flink's.

use anabranch_model::{Error, Result};

use crate::Options;
use crate::options::no_choice;

/// Options of one format of a table.
pub(crate) struct FormatOptions<'o, 'a> {
    options: &'o mut Options<'a>,
    /// The prefixes of their names: the name of the format, optionally after `key.` or `value.`, as in Flink.
    /// The longer form takes precedence.
    prefixes: Vec<String>,
}

impl<'o, 'a> FormatOptions<'o, 'a> {
    /// The options of the format `format`, which the option `format_option` has chosen: `format`,
    /// `key.format` or `value.format`.
    pub(crate) fn new(options: &'o mut Options<'a>, format: &str, format_option: &str) -> Self {
        let parts = [format_option.strip_suffix("format").unwrap_or_default(), ""];
        let mut prefixes = parts.map(|part| format!("{part}{format}.")).to_vec();
        prefixes.dedup();
        FormatOptions { options, prefixes }
    }

    /// The full name and the value of an option that has these names.
    pub(crate) fn string(&mut self, names: &[&str]) -> Result<Option<(String, &'a str)>> {
        let mut found = None;
        for prefix in &self.prefixes {
            let full = names.iter().map(|name| format!("{prefix}{name}"));
            let given = full.filter_map(|name| Some((self.options.string(&name)?, name)));
            let given: Vec<(&str, String)> = given.collect();
            if let [(_, one), (_, other), ..] = given.as_slice() {
                return Err(Error::user(format!("the options '{one}' and '{other}' are the same"))
                    .remedy("leave out one of them"));
            }
            found = found.or(given.into_iter().next());
        }
        Ok(found.map(|(value, name)| (name, value)))
    }

    /// One of several words, in small or capital letters.
    pub(crate) fn choice<T: Clone>(&mut self, names: &[&str], choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some((name, text)) = self.string(names)? else { return Ok(None) };
        match choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim())) {
            Some((_, value)) => Ok(Some(value.clone())),
            None => Err(no_choice(&name, text, choices)),
        }
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        self.choice(&[name], &[("true", true), ("false", false)])
    }

    /// An option of Flink that can only have this value here. Any other value is an error with this remedy.
    pub(crate) fn only(&mut self, name: &str, value: &str, remedy: &str) -> Result<()> {
        match self.string(&[name])? {
            Some((name, text)) if !text.trim().eq_ignore_ascii_case(value) => {
                Err(Error::user(format!("option '{name}' is '{text}', and can only be '{value}' here")).remedy(remedy))
            }
            _ => Ok(()),
        }
    }

    /// Options of Flink without effect here.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        for prefix in &self.prefixes {
            names.iter().for_each(|name| self.options.ignore(&[&format!("{prefix}{name}")]));
        }
    }

    /// Reads the options that all JSON formats have in Flink.
    pub(crate) fn json(&mut self) -> Result<()> {
        // No key of a map is NULL, and decimals are always written with all digits.
        self.ignore(&["map-null-key.mode", "map-null-key.literal", "encode.decimal-as-plain-number"]);
        self.only("encode.ignore-null-fields", "false", "leave it out: NULL is written as null")
    }

    /// Whether fields that cannot be parsed are NULL. Records that cannot be parsed are then skipped; the
    /// planner reads this option for that, too.
    pub(crate) fn ignore_errors(&mut self) -> Result<bool> {
        Ok(self.boolean("ignore-parse-errors")?.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::ConnectorSpec;

    use crate::format::Format;
    use crate::format::csv::CsvOptions;
    use crate::format::json::{JsonOptions, TimestampFormat};
    use crate::{Options, format::debezium::DebeziumOptions};

    fn spec(options: &[(&str, &str)]) -> ConnectorSpec {
        ConnectorSpec::new("kafka", options)
    }

    fn read(format_option: &'static str, options: &[(&str, &str)]) -> Result<Format, String> {
        let spec = spec(options);
        let mut options = Options::new(&spec);
        let format = Format::required(&mut options, format_option).map_err(|error| error.to_string())?;
        options.finish().map(|()| format).map_err(|error| error.to_string())
    }

    fn timestamps(format: &Format) -> TimestampFormat {
        let Format::Json(JsonOptions { timestamp_format, .. }) = format else { panic!("{format:?}") };
        *timestamp_format
    }

    #[test]
    fn options_have_flinks_names_too() {
        let csv = |options: &[(&str, &str)]| read("format", &[&[("format", "csv")], options].concat());
        let Ok(Format::Csv(own)) = csv(&[("csv.delimiter", ";"), ("csv.null", "N")]) else { panic!("CSV") };
        let flinks = csv(&[
            ("csv.field-delimiter", ";"),
            ("csv.null-literal", "N"),
            ("csv.ignore-parse-errors", "false"),
            ("csv.allow-comments", "FALSE"),
            ("csv.quote-character", "\""),
            ("csv.array-element-delimiter", "|"),
        ]);
        assert!(matches!(flinks, Ok(Format::Csv(options)) if options == own && own != CsvOptions::default()));

        let json = [("format", "json"), ("json.timestamp-format.standard", "ISO-8601")];
        assert_eq!(read("format", &json).as_ref().map(timestamps), Ok(TimestampFormat::Iso8601));
        let without_effect =
            [("format", "json"), ("json.fail-on-missing-field", "false"), ("json.map-null-key.mode", "DROP")];
        assert_eq!(read("format", &without_effect).as_ref().map(timestamps), Ok(TimestampFormat::Sql));
    }

    #[test]
    fn what_is_said_of_keys_or_values_counts_more() {
        let with_option =
            |set: &'static str| [("value.format", "json"), ("json.timestamp-format", "sql"), (set, "iso-8601")];
        let iso = read("value.format", &with_option("value.json.timestamp-format.standard"));
        assert_eq!(iso.as_ref().map(timestamps), Ok(TimestampFormat::Iso8601));
        let error = read("value.format", &with_option("key.json.timestamp-format.standard")).expect_err("of keys");
        assert!(error.contains("unknown option 'key.json.timestamp-format.standard'"), "{error}");
        let error = read("value.format", &with_option("json.timestamp-format.standard")).expect_err("twice");
        assert!(error.contains("'json.timestamp-format' and 'json.timestamp-format.standard' are the same"), "{error}");
    }

    #[test]
    fn what_is_otherwise_here_is_refused_with_a_remedy() {
        for (format, name, value, remedy) in [
            ("json", "json.ignore-parse-errors", "yes", "use 'true' or 'false'"),
            ("json", "json.fail-on-missing-field", "true", "NOT NULL"),
            ("json", "json.timestamp-format.standard", "RFC", "use 'sql' or 'iso-8601'"),
            ("csv", "csv.escape-character", "\\", "\"\""),
            ("csv", "csv.field-delimiter", "||", "one ASCII character"),
            ("csv", "csv.null-literal", "a,b", "without quotes"),
        ] {
            let error = read("format", &[("format", format), (name, value)]).expect_err(name);
            assert!(error.contains(&format!("option '{name}' is '{value}'")) && error.contains(remedy), "{error}");
        }
        let spec = spec(&[("debezium-json.encode.ignore-null-fields", "true")]);
        let error = DebeziumOptions::read(&mut Options::new(&spec), "format").expect_err("errors").to_string();
        assert!(error.contains("NULL is written as null"), "{error}");
    }
}
