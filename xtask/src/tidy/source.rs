//! A minimal scanner of Rust text: it distinguishes code from comments and literals, and finds the ends of
//! blocks and the lines of tests. Checks that count or search work on the masked text, so that a brace in a
//! string or a name in a comment cannot mislead them.

use std::ops::Range;

/// The text with comments and literals blanked: same length, same lines, only code left.
pub(crate) fn mask(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for piece in pieces(text) {
        for byte in &mut out[piece] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    // Only whole comments and literals were replaced, by ASCII: what is left is still UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// The comments and literals of a text, in their order.
pub(crate) fn pieces(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = literal_or_comment(bytes, at);
        if end > at {
            found.push(at..end);
        }
        at = end.max(at + 1);
    }
    found
}

/// Where the comment or literal that starts at `at` ends; `at` itself if there is none.
fn literal_or_comment(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let inside_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment(rest),
        [b'"', ..] => at + quoted(rest, 0),
        [b'b' | b'c', b'"', ..] if !inside_word => at + quoted(rest, 1),
        [b'b', b'\'', ..] if !inside_word => at + quoted(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !inside_word => at + raw_string(rest, 2),
        [b'r', b'"' | b'#', ..] if !inside_word => at + raw_string(rest, 1),
        [b'\'', b'\\', ..] => at + quoted(rest, 0),
        [b'\'', ..] => at + character(rest),
        _ => at,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a literal whose quote is at `open` and that may contain escapes.
fn quoted(rest: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == rest[open] => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a raw string whose hashes start at `hashes`; 0 for a raw identifier (`r#type`).
fn raw_string(rest: &[u8], hashes: usize) -> usize {
    let count = rest[hashes..].iter().take_while(|b| **b == b'#').count();
    let open = hashes + count;
    if rest.get(open) != Some(&b'"') {
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(1 + count, b'#');
    let body = &rest[open + 1..];
    let length = body.windows(close.len()).position(|w| w == close).unwrap_or(body.len());
    (open + 1 + length + close.len()).min(rest.len())
}

/// Length of a character literal without escape; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    let text =
        std::str::from_utf8(&rest[1..rest.len().min(6)]).or_else(|e| std::str::from_utf8(&rest[1..=e.valid_up_to()]));
    let Some(length) = text.ok().and_then(|t| t.chars().next()).map(char::len_utf8) else { return 0 };
    if rest.get(1 + length) == Some(&b'\'') { length + 2 } else { 0 }
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Positions of `word` as a whole word.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).is_some_and(|i| is_word(bytes[i]));
        let after = bytes.get(at + word.len()).is_some_and(|b| is_word(*b));
        !before && !after
    })
}

/// Line, from 1, of a position.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count()
}

/// The block in braces that opens first after `from`, braces included; `None` if a `;` comes before.
pub(crate) fn block_after(masked: &str, from: usize) -> Option<Range<usize>> {
    let mut nesting = 0_i32;
    for (at, byte) in masked.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting -= 1,
            b';' if nesting == 0 => return None,
            b'{' if nesting == 0 => return Some(at..closing(masked, at)? + 1),
            _ => {}
        }
    }
    None
}

/// The bracket that closes the one at `open`, of any kind.
pub(crate) fn closing(masked: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in masked.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Name.
    pub(crate) name: String,
    /// Line of the word `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from there to the closing brace, both included.
    pub(crate) lines: usize,
}

/// The functions of a masked text that have bodies, in order; those within others too.
pub(crate) fn functions(masked: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in words(masked, "fn") {
        let Some(name) = word_at(masked, at + 2) else { continue };
        let Some(body) = block_after(masked, at) else { continue };
        let line = line_of(masked, at);
        found.push(Function { name: name.to_owned(), line, lines: line_of(masked, body.end - 1) - line + 1 });
    }
    found
}

/// The word that follows `from` after white space, if one does.
pub(crate) fn word_at(masked: &str, from: usize) -> Option<&str> {
    let rest = masked[from..].trim_start();
    let end = rest.bytes().position(|b| !is_word(b)).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// The masked text without its inline test modules, which are blanked.
pub(crate) fn without_tests(masked: &str) -> String {
    let mut out = masked.to_owned();
    for (at, _) in masked.match_indices("#[cfg(test)]") {
        if let Some(block) = block_after(masked, at + "#[cfg(test)]".len()) {
            let blank: String = masked[block.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
            if blank.len() == block.len() {
                out.replace_range(block, &blank);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_comments_and_literals_and_nothing_else() {
        // The remaining text, with white space between pieces reduced to one blank.
        let cases = [
            ("a /* { /* { */ } */ b", "a b"),
            ("x // {\ny", "x y"),
            (r#"f("}\"{", 'a', '\'', b'}', b"{")"#, "f( , , , , )"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            (r##"let s = r#"{"}"#; r#type"##, "let s = ; r#type"),
            (r#"br"\" ; for_r"" ."#, "; for_r ."),
            (r#"c"{" 'ü' }"#, "}"),
            ("'outer: loop { break 'outer; }", "'outer: loop { break 'outer; }"),
        ];
        for (text, left) in cases {
            let masked = mask(text);
            assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), left, "{text}");
            assert_eq!((masked.len(), masked.lines().count()), (text.len(), text.lines().count()), "{text}");
        }
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let text = "trait T { fn none(&self); }\nfn outer(a: [u8; 2]) -> [u8; 2] {\n    fn inner() {\n        \"}\";\n    }\n    a\n}\ntype F = fn(i64);\n";
        let found = functions(&mask(text));
        let seen: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(seen, [("outer", 2, 6), ("inner", 3, 3)]);
    }

    #[test]
    fn test_modules_are_omitted() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let names: Vec<_> = functions(&without_tests(&mask(text))).into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(
            without_tests("#[cfg(test)]\nmod tests;\nfn d() {}").trim_start_matches("#[cfg(test)]\n"),
            "mod tests;\nfn d() {}"
        );
    }
}
