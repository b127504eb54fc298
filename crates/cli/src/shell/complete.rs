//! Completion with the Tab key: of SQL, and of the shell's own commands.

use anabranch_server::Vocabulary;

use super::command;

/// Completions at byte `cursor` of `text`: where the word begins that the candidates replace, and the
/// candidates.
pub(super) fn complete(vocabulary: &Vocabulary, text: &str, cursor: usize) -> (usize, Vec<String>) {
    of_command(vocabulary, &text[..cursor]).unwrap_or_else(|| anabranch_server::complete(vocabulary, text, cursor))
}

/// Completions of a command of the shell, if the text is one.
fn of_command(vocabulary: &Vocabulary, before: &str) -> Option<(usize, Vec<String>)> {
    let line = before.rsplit('\n').next().unwrap_or(before);
    if !line.trim_start().starts_with('\\') {
        return None;
    }
    let start = before.char_indices().rfind(|(_, c)| c.is_whitespace()).map_or(0, |(at, c)| at + c.len_utf8());
    let word = &before[start..];
    let matching = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        names.filter(|name| name.starts_with(word)).map(str::to_owned).collect()
    };
    let name = line.split_whitespace().next().unwrap_or_default();
    let candidates = match name {
        _ if word.starts_with('\\') => matching(&mut command::names()),
        "\\d" => matching(&mut vocabulary.relations.keys().map(String::as_str)),
        "\\df" => matching(&mut vocabulary.functions.iter().map(String::as_str)),
        "\\format" => matching(&mut ["table", "csv", "json"].into_iter()),
        _ => Vec::new(),
    };
    Some((start, candidates))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> (usize, Vec<String>) {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let relations = [("orders".to_owned(), names(&["amount"]))].into();
        let vocabulary = Vocabulary { relations, functions: names(&["abs", "upper"]), ..Vocabulary::default() };
        complete(&vocabulary, text, text.len())
    }

    #[test]
    fn commands_of_the_shell_are_completed() {
        assert_eq!(at("\\d ord").1, ["orders"]);
        assert_eq!(at("\\df up").1, ["upper"]);
        assert_eq!(at("\\fo"), (0, vec!["\\format".to_owned()]));
        assert_eq!(at("SELECT 1\n\\format c").1, ["csv"]);
        assert_eq!(at("sel"), (0, vec!["SELECT".to_owned()]));
    }

    #[test]
    fn a_space_of_several_bytes_ends_a_word() {
        assert_eq!(at("\\d\u{a0}or"), (4, vec!["orders".to_owned()]));
    }
}
