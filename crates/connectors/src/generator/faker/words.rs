//! The lists of `words.txt`. Names are matched regardless of case and underscores.

use anabranch_model::{Error, nearest};

use super::call;

const WORDS: &str = include_str!("words.txt");

/// Names are compared in this form.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

/// The names of each line, and their choices.
fn lists() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": "))
}

/// The expressions from which a provider chooses.
pub(super) fn choices(name: &str) -> Option<impl Iterator<Item = &'static str> + use<>> {
    let wanted = plain(name);
    let (_, mut rest) = lists().find(|(names, _)| names.split(',').any(|name| plain(name) == wanted))?;
    Some(std::iter::from_fn(move || {
        let end = choice_end(rest)?;
        let choice = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(choice)
    }))
}

/// Where the first choice ends: calls may have bars in their arguments.
fn choice_end(text: &str) -> Option<usize> {
    let (mut is_quoted, has_calls) = (false, text.contains("#{"));
    let end = text.bytes().position(|byte| {
        is_quoted ^= byte == b'\'' && has_calls;
        byte == b'|' && !is_quoted
    });
    (!text.is_empty()).then(|| end.unwrap_or(text.len()))
}

/// The names of all providers, as users write them.
fn names() -> impl Iterator<Item = &'static str> {
    lists().flat_map(|(names, _)| names.split(',')).chain(call::NAMES.iter().copied())
}

/// The error of a name that is no provider.
pub(super) fn unknown(name: &str) -> Error {
    let wanted = plain(name);
    let guess = nearest(name, names()).map(|known| format!("did you mean '{known}'? ")).unwrap_or_default();
    let mut families: Vec<&str> = names().filter_map(|name| name.split_once('.')).map(|(family, _)| family).collect();
    families.sort_unstable();
    families.dedup();
    let mut own: Vec<&str> = names().filter(|known| same_family(known, &wanted)).collect();
    own.sort_unstable();
    let known = match own.is_empty() {
        true => format!(
            "providers are in: {}; or choose from values of your own: #{{Options.option ''a'',''b''}}",
            families.join(", ")
        ),
        false => {
            format!("known are: {}; or choose from values of your own: #{{Options.option ''a'',''b''}}", own.join(", "))
        }
    };
    Error::user(format!("there is no provider '{name}'")).remedy(format!("{guess}{known}"))
}

fn same_family(known: &str, wanted: &str) -> bool {
    let family = |name: &str| name.split_once('.').map(|(family, _)| plain(family));
    family(known).is_some() && family(known) == family(wanted)
}

#[cfg(test)]
mod tests {
    use super::super::expression::Expression;
    use super::*;

    #[test]
    fn every_list_can_be_read_and_no_name_is_in_two() {
        let mut all: Vec<String> = names().map(plain).collect();
        for name in names().filter(|name| choices(name).is_some()) {
            Expression::parse(&format!("#{{{name}}}")).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(choices(name).unwrap().all(|choice| !choice.is_empty()), "{name}");
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(count > 250, "{count}");
        assert_eq!(choices("superhero.POWER").unwrap().next(), Some("Energy Blasts"));
        assert_eq!(choices("finance.credit_card").unwrap().count(), 1);
    }
}
