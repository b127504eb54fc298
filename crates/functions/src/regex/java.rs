//! Translates Java's regular expressions to the library's dialect: classes such as `\w` are ASCII, `.` stops
//! at every line break, and constructs that the library lacks, or to which it gives another meaning, are
//! refused.

/// Why a pattern cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Java refuses it too.
    Wrong,
    /// What the library lacks.
    Unsupported(String),
}

impl From<String> for Refusal {
    fn from(what: String) -> Self {
        Refusal::Unsupported(what)
    }
}

/// The same pattern for the library.
pub(super) fn translate(pattern: &str) -> Result<String, Refusal> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    // Depth of nested classes `[...]`.
    let mut classes = 0_usize;
    // The last two characters; `]` also for a class such as `\w`.
    let (mut before, mut previous) = (' ', ' ');
    let dot_matches_all = pattern.contains("(?s") || pattern.contains("(?is") || pattern.contains("(?ms");
    while let Some(c) = chars.next() {
        let is_class = |escaped: &char| "dDwWsSpP".contains(*escaped);
        let begins_class = c == '[' || (c == '\\' && chars.peek().is_some_and(is_class));
        // Java takes `-` before `[` as it is, and refuses it before `\w`; the library does neither.
        if begins_class && classes > 0 && previous == '-' && !matches!(before, '[' | '^' | ']') {
            return Err("a range that ends in a class within [...]".to_owned().into());
        }
        match c {
            '\\' => {
                let escaped = chars.next().ok_or(Refusal::Wrong)?;
                escape(escaped, &mut chars, &mut out)?;
                (before, previous) = (previous, if is_class(&escaped) { ']' } else { 'x' });
                continue;
            }
            '[' => classes += 1,
            ']' => classes = classes.saturating_sub(1),
            '-' | '~' if classes > 0 && chars.peek() == Some(&c) => return Err(format!("'{c}{c}' within [...]").into()),
            '+' if classes == 0 && matches!(previous, '+' | '*' | '?' | '}') => {
                return Err("a possessive quantifier".to_owned().into());
            }
            '.' if classes == 0 && !dot_matches_all => {
                out.push_str("[^\\n\\r\\u0085\\u2028\\u2029]");
                (before, previous) = (previous, c);
                continue;
            }
            _ => {}
        }
        // A group's `(?` is not a quantifier.
        (before, previous) = (previous, if c == '?' && previous == '(' { '(' } else { c });
        out.push(c);
    }
    Ok(out)
}

/// A class keeps its brackets within another one: a `-` after it is not the middle of a range.
fn escape(escaped: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Result<(), String> {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'w' => out.push_str("[a-zA-Z0-9_]"),
        's' => out.push_str("[ \\t\\n\\x0B\\f\\r]"),
        'D' => out.push_str("[^0-9]"),
        'W' => out.push_str("[^a-zA-Z0-9_]"),
        'S' => out.push_str("[^ \\t\\n\\x0B\\f\\r]"),
        'p' | 'P' => property(escaped, chars, out)?,
        't' | 'n' | 'r' | 'f' | 'a' | 'x' | 'u' | 'b' | 'B' | 'A' | 'z' => out.extend(['\\', escaped]),
        c if c.is_ascii_alphanumeric() => return Err(format!("'\\{c}'")),
        c if c.is_ascii_punctuation() && c != '<' && c != '>' => out.extend(['\\', c]),
        c => out.push(c),
    }
    Ok(())
}

/// `\p{Lu}` and similar classes. POSIX names mean ASCII.
fn property(
    letter: char,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), String> {
    let name: String = match chars.next() {
        Some('{') => chars.by_ref().take_while(|c| *c != '}').collect(),
        Some(c) => c.to_string(),
        None => return Err("'\\p' without a name".into()),
    };
    let posix = match name.as_str() {
        "Lower" => "lower",
        "Upper" => "upper",
        "Alpha" => "alpha",
        "Digit" => "digit",
        "Alnum" => "alnum",
        "Punct" => "punct",
        "Space" => "space",
        // General categories of Unicode have one or two letters.
        _ if name.len() <= 2 => {
            out.push_str(&format!("\\{letter}{{{name}}}"));
            return Ok(());
        }
        _ => return Err(format!("'\\{letter}{{{name}}}'")),
    };
    let negation = if letter == 'P' { "^" } else { "" };
    out.push_str(&format!("[[:{negation}{posix}:]]"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_beside_a_class_is_a_dash() {
        let is_match = |java: &str, text: &str| {
            regex::Regex::new(&translate(java).expect("a pattern of both")).expect("translated").is_match(text)
        };
        let address = r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$";
        assert!(is_match(address, "ann-lee.o_neil@mail-1.example.org"));
        assert!(!is_match(address, "ann/lee@example.org"));
        assert!(is_match(r"^[\s-,]+$", " -,") && !is_match(r"[\s-,]", "+"));
        assert!(is_match(r"^[\d-z]+$", "7-z") && !is_match(r"[\d-z]", "y"));
        assert!(is_match(r"^[^\w-]+$", "+.") && !is_match(r"[^\w-]", "a-1"));
    }

    #[test]
    fn classes_are_those_of_ascii_and_foreign_constructs_are_refused() {
        for (java, ours) in [
            (r"\d+[\w-]", "[0-9]+[[a-zA-Z0-9_]-]"),
            (r"[\w-\.]+@[\d-z]", r"[[a-zA-Z0-9_]-\.]+@[[0-9]-z]"),
            (r"[-\w][^-\s]", r"[-[a-zA-Z0-9_]][^-[ \t\n\x0B\f\r]]"),
            (r"\p{Alpha}\p{Lu}", r"[[:alpha:]]\p{Lu}"),
            (r"a\.b\<", r"a\.b<"),
            ("(?:a)??", "(?:a)??"),
        ] {
            assert_eq!(translate(java), Ok(ours.to_owned()), "{java}");
        }
        for java in ["a++", "a{2}+", r"(a)\1", r"\Qa\E", "[a--b]", "[a-[b]]", r"[+-\d]", r"\p{IsLatin}"] {
            assert!(matches!(translate(java), Err(Refusal::Unsupported(_))), "{java}");
        }
        assert_eq!(translate("a\\"), Err(Refusal::Wrong));
    }
}
