//! Completion of SQL: what may stand at the place of the cursor, and the names that a session knows.

mod place;

use std::collections::BTreeSet;

use anabranch_connectors::format::Format;
use anabranch_connectors::{COMMON_OPTIONS, connector_info};
use anabranch_plan::window_functions;

use self::place::{Place, place};
use crate::Vocabulary;
use crate::words::{Word, words};

const TYPES: [&str; 18] = [
    "ARRAY<",
    "BIGINT",
    "BOOLEAN",
    "BYTES",
    "CHAR(",
    "DATE",
    "DECIMAL(",
    "DOUBLE",
    "FLOAT",
    "INT",
    "MAP<",
    "ROW<",
    "SMALLINT",
    "STRING",
    "TIME",
    "TIMESTAMP(3)",
    "TIMESTAMP_LTZ(3)",
    "VARCHAR(",
];

/// Columns that a table of windows has in addition.
const OF_WINDOWS: [&str; 3] = ["window_start", "window_end", "window_time"];

/// Completions at byte `cursor` of `text`: where the word begins that the candidates replace, and the
/// candidates.
#[must_use]
pub fn complete(vocabulary: &Vocabulary, text: &str, cursor: usize) -> (usize, Vec<String>) {
    let before = &text[..cursor];
    let all = words(before);
    let begin = all.iter().rposition(|word| word.is(";")).map_or(0, |at| at + 1);
    let mut of_statement = &all[begin..];
    let typed = of_statement.last().filter(|word| word.place.end == cursor && (word.is_open || !word.is_quoted()));
    let typed = typed.filter(|word| word.is_open || word.is_name());
    if typed.is_some() {
        of_statement = &of_statement[..of_statement.len() - 1];
    }
    let scope = Scope { vocabulary, statement: whole_statement(text, all.get(begin), cursor) };
    let place = place(of_statement);
    match typed {
        Some(word) if word.is_open => {
            let quote = word.quote.unwrap_or('\'');
            let start = word.place.start + quote.len_utf8();
            let is_closed = text[cursor..].starts_with(quote);
            (start, scope.quoted(&place, &word.text, quote, is_closed))
        }
        Some(word) => {
            let (path, last) = word.text.rsplit_once('.').map_or((None, word.text.as_str()), |(p, l)| (Some(p), l));
            let candidates = match path {
                Some(relation) => matching(scope.columns_of(relation), last),
                None => scope.candidates(&place, last),
            };
            (cursor - last.len(), candidates)
        }
        None => (cursor, scope.candidates(&place, "")),
    }
}

/// The words of the statement at the cursor, also behind it.
fn whole_statement(text: &str, first: Option<&Word>, cursor: usize) -> Vec<Word> {
    let begin = first.map_or(cursor, |word| word.place.start);
    let mut all = words(&text[begin..]);
    let end = all.iter().position(|word| word.is(";")).unwrap_or(all.len());
    all.truncate(end);
    all
}

/// Names that a statement may use.
struct Scope<'a> {
    vocabulary: &'a Vocabulary,
    /// All of it.
    statement: Vec<Word>,
}

impl Scope<'_> {
    /// What begins so at a place, the most probable first.
    fn candidates(&self, place: &Place, word: &str) -> Vec<String> {
        let Vocabulary { relations, functions, jobs, settings, .. } = self.vocabulary;
        let keywords = |of: &[&'static str]| matching(of, word);
        match place {
            Place::Keywords(of) => keywords(of),
            Place::Relation(of) => [matching(relations.keys(), word), keywords(of)].concat(),
            Place::Function => matching(functions, word),
            Place::WindowFunction => calls(matching(window_functions(), word)),
            Place::Job(of) => [matching(jobs, word), keywords(of)].concat(),
            // Without a first letter there would be hundreds of functions.
            Place::Value(_) | Place::Column if word.is_empty() => self.columns(),
            Place::Value(of) => {
                let functions = calls(matching(functions, word));
                [matching(self.columns(), word), functions, keywords(of)].concat()
            }
            Place::Column => matching(self.columns(), word),
            Place::Type => keywords(&TYPES),
            Place::OptionName(_) | Place::OptionValue(..) | Place::Setting if !word.is_empty() => Vec::new(),
            Place::OptionName(connector) => {
                let names = self.options(connector.as_deref()).into_iter();
                names.map(|name| format!("'{}", named(&name, '\''))).collect()
            }
            Place::OptionValue(connector, option) => {
                let values = self.values(connector.as_deref(), option).into_iter();
                values.map(|value| format!("'{value}'")).collect()
            }
            Place::Setting => settings.iter().map(|name| format!("'{name}'")).collect(),
            Place::Nothing => Vec::new(),
        }
    }

    /// What begins so within quotes.
    fn quoted(&self, place: &Place, word: &str, quote: char, is_closed: bool) -> Vec<String> {
        let end = if is_closed { String::new() } else { quote.to_string() };
        let closed = |names: Vec<String>| names.into_iter().map(|name| format!("{name}{end}")).collect::<Vec<_>>();
        if quote != '\'' {
            let names = match place {
                Place::Relation(_) => self.vocabulary.relations.keys().cloned().collect(),
                _ => self.columns(),
            };
            return closed(matching(names, word));
        }
        match place {
            Place::OptionName(connector) => {
                let names = matching(self.options(connector.as_deref()), word).into_iter();
                names.map(|name| if is_closed { name } else { named(&name, quote) }).collect()
            }
            Place::OptionValue(connector, option) => closed(matching(self.values(connector.as_deref(), option), word)),
            Place::Setting => closed(matching(&self.vocabulary.settings, word)),
            Place::Job(_) => closed(matching(&self.vocabulary.jobs, word)),
            _ => Vec::new(),
        }
    }

    /// The options of a table that are not given yet.
    fn options(&self, connector: Option<&str>) -> Vec<String> {
        let Some(connector) = connector else { return vec!["connector".to_owned()] };
        let own = self.vocabulary.connectors.get(connector).into_iter().flatten().cloned();
        let formats = connector_info(connector).filter(|info| !info.formats.is_empty()).map(|_| "format".to_owned());
        let all = own.chain(formats).chain(COMMON_OPTIONS.iter().map(|name| (*name).to_owned()));
        let given =
            |name: &String| self.statement.iter().any(|word| word.is_quoted() && !word.is_open && word.text == *name);
        let mut seen = BTreeSet::new();
        all.filter(|name| !given(name) && seen.insert(name.clone())).collect()
    }

    fn values(&self, connector: Option<&str>, option: &str) -> Vec<String> {
        match option {
            "connector" => self.vocabulary.connectors.keys().cloned().collect(),
            "format" | "value.format" | "key.format" => {
                let formats = connector.and_then(connector_info).map_or(&Format::NAMES[..], |info| info.formats);
                formats.iter().map(|format| (*format).to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The columns of the tables that the statement names; of all tables while it names none.
    fn columns(&self) -> Vec<String> {
        let relations = &self.vocabulary.relations;
        let names = |word: &Word| relations.contains_key(&word.text);
        let named: BTreeSet<&String> =
            self.statement.iter().filter(|word| names(word)).map(|word| &word.text).collect();
        let mut columns: Vec<String> = match named.is_empty() {
            true => relations.values().flatten().cloned().collect(),
            false => named.into_iter().filter_map(|name| relations.get(name)).flatten().cloned().collect(),
        };
        if self.statement.iter().any(|word| window_functions().any(|window| word.is(window))) {
            columns.extend(OF_WINDOWS.map(str::to_owned));
        }
        columns.sort();
        columns.dedup();
        columns
    }

    /// The columns of a table, by its name or by the one that the statement gives it.
    fn columns_of(&self, name: &str) -> Vec<String> {
        let relations = &self.vocabulary.relations;
        if let Some(columns) = relations.get(name) {
            return columns.clone();
        }
        let is_alias =
            |of: &[Word]| of[1].text == name || (of[1].is("AS") && of.get(2).is_some_and(|word| word.text == name));
        let places = 0..self.statement.len().saturating_sub(1);
        let named =
            places.map(|at| &self.statement[at..]).find(|of| relations.contains_key(&of[0].text) && is_alias(of));
        if let Some(columns) = named.and_then(|of| relations.get(&of[0].text)) {
            return columns.clone();
        }
        // Of a table of windows or of a subquery: the columns of what is in it.
        let is_given = self.statement.windows(2).any(|of| (of[0].is(")") || of[0].is("AS")) && of[1].text == name);
        if is_given { self.columns() } else { Vec::new() }
    }
}

/// The name of an option up to where its value begins; one of a group only up to where its own name begins.
fn named(name: &str, quote: char) -> String {
    match name.strip_suffix('*') {
        Some(group) => group.to_owned(),
        None => format!("{name}{quote} = {quote}"),
    }
}

/// How calls of functions begin.
fn calls(names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| format!("{}(", name.to_uppercase())).collect()
}

/// Names that begin with the word, in either case.
fn matching(names: impl IntoIterator<Item = impl AsRef<str>>, word: &str) -> Vec<String> {
    let begins = |name: &str| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    names.into_iter().filter(|name| begins(name.as_ref())).map(|name| name.as_ref().to_owned()).collect()
}

#[cfg(test)]
mod tests;
