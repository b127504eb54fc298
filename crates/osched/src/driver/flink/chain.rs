//! The operators of a vertex of a job graph: Flink fuses operators to chains, and a vertex is a chain.
//!
//! A chain is told twice. The vertex' name is `A -> (B -> C, D)`. Its description is a tree with a line for
//! each operator, which is longer but whose structure is certain: names may hold parentheses and commas.

/// An operator within a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// As the job names it.
    pub(super) name: String,
    /// Which operator of the chain it gets rows from. None for the first.
    pub(super) parent: Option<usize>,
}

/// Characters of a name that was a description. SQL's descriptions list all columns.
const NAME_CHARS_MAX: usize = 80;

/// The operators of a vertex in the order in which rows pass them. At least one.
pub(super) fn operators(name: &str, description: &str) -> Vec<Link> {
    let tree = tree(&unescaped(description));
    let mut chain = Vec::new();
    add_chain(name.trim(), None, &mut chain);
    if chain.len() == tree.len() || tree.len() < 2 {
        return chain;
    }
    tree
}

/// Reads lines `A`, `:- B`, `:  +- C`, `+- D`.
fn tree(description: &str) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    // The last operator of each depth.
    let mut last: Vec<usize> = Vec::new();
    for line in description.lines().filter(|line| !line.trim().is_empty()) {
        let (mut depth, mut text) = (0_usize, line);
        while let Some(rest) = [":- ", "+- ", ":  ", "   "].iter().find_map(|prefix| text.strip_prefix(prefix)) {
            (depth, text) = (depth + 1, rest);
        }
        let parent = depth.checked_sub(1).and_then(|above| last.get(above).copied());
        last.truncate(depth);
        // A line that skips a depth continues at the deepest known one.
        last.resize(depth, links.len().saturating_sub(1));
        last.push(links.len());
        links.push(Link { name: text.trim().chars().take(NAME_CHARS_MAX).collect(), parent });
    }
    links
}

/// Adds the operators of `A -> (B -> C, D)`.
fn add_chain(text: &str, parent: Option<usize>, links: &mut Vec<Link>) {
    let (head, rest) = match split(text, " -> ").split_first() {
        Some((head, rest)) => (head.trim(), rest.join(" -> ")),
        None => (text, String::new()),
    };
    if parent.is_some() && rest.is_empty() {
        let branches = head.strip_prefix('(').and_then(|head| head.strip_suffix(')')).map(|inner| split(inner, ", "));
        // `(a + b)` may be a name: branches are several.
        if let Some(branches) = branches.filter(|branches| branches.len() > 1) {
            branches.iter().for_each(|branch| add_chain(branch, parent, links));
            return;
        }
    }
    let own = links.len();
    links.push(Link { name: head.to_owned(), parent });
    if !rest.is_empty() {
        add_chain(&rest, Some(own), links);
    }
}

/// Splits where `separator` is outside of parentheses and brackets.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ if depth == 0 && index >= begin && text.as_bytes()[index..].starts_with(separator.as_bytes()) => {
                parts.push(&text[begin..index]);
                begin = index + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[begin.min(text.len())..]);
    parts
}

/// Undoes how the interface writes descriptions for a browser.
fn unescaped(description: &str) -> String {
    let mut text = description.replace("<br/>", "\n");
    for (written, meant) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
    {
        text = text.replace(written, meant);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(links: &[Link]) -> Vec<(&str, Option<usize>)> {
        links.iter().map(|link| (link.name.as_str(), link.parent)).collect()
    }

    #[test]
    fn a_chain_is_read_from_its_name_and_its_tree() {
        let description = "Source: gen<br/>:- Map<br/>:  +- Sink: a<br/>+- Filter<br/>   +- Sink: b<br/>";
        let expected =
            [("Source: gen", None), ("Map", Some(0)), ("Sink: a", Some(1)), ("Filter", Some(0)), ("Sink: b", Some(3))];
        assert_eq!(names(&operators("Source: gen -> (Map -> Sink: a, Filter -> Sink: b)", description)), expected);
        // A description in one line, as older settings write it.
        let one = "Source: gen -&gt; (Map -&gt; Sink: a, Filter -&gt; Sink: b)";
        assert_eq!(names(&operators("Source: gen -> (Map -> Sink: a, Filter -> Sink: b)", one)), expected);
        assert_eq!(names(&tree(&unescaped(description))), expected);
    }

    #[test]
    fn names_may_hold_what_separates_them() {
        let sql = "Calc(select=[a -> b, c], where=[(d > 1)]) -> Sink: out(x, y)";
        let expected = [("Calc(select=[a -> b, c], where=[(d > 1)])", None), ("Sink: out(x, y)", Some(0))];
        assert_eq!(names(&operators(sql, "")), expected);
        assert_eq!(names(&operators("(a, b)", "(a, b)<br/>")), [("(a, b)", None)]);
        assert_eq!(names(&operators("Map -> (x + y)", "")), [("Map", None), ("(x + y)", Some(0))]);
        assert_eq!(names(&operators("odd (", "odd (<br/>")), [("odd (", None)]);
        // The tree decides where the name cannot.
        let links = operators("a) -> (b -> c -> d", "a) -&gt; (b<br/>:- c<br/>+- d<br/>");
        assert_eq!(names(&links), [("a) -> (b", None), ("c", Some(0)), ("d", Some(0))]);
    }

    #[test]
    fn there_is_always_an_operator() {
        assert_eq!(names(&operators("", "")), [("", None)]);
        for description in [":- b", "   :- b\n+- c\n:  :  +- d", " -> ", "é -> "] {
            assert!(!operators("x", description).is_empty());
            for (index, link) in tree(description).iter().enumerate() {
                assert!(link.parent.is_none_or(|parent| parent < index));
            }
        }
    }
}
