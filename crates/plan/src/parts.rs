//! Finds the parts of a text around places: a table of FROM, an operand of AND, an item of SELECT, a key of
//! GROUP BY. It reads tokens, because the parser's tree lacks some places.
//!
//! A part begins and ends at commas and at the keywords of clauses, in the innermost query around the place.
//! Other parentheses belong to the part around them.

use anabranch_dataflow::Place;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::origin::place_of;
use crate::text::tokenize;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPart {
    /// Its first character.
    pub from: Place,
    /// The end: the character behind its last one.
    pub to: Place,
}

/// The parts of a text.
#[derive(Debug, Default)]
pub struct TextParts(Vec<NumberedPart>);

#[derive(Clone, Copy, Debug)]
struct NumberedPart {
    of: TextPart,
    /// The number of its clause, and its number in the clause.
    clause: usize,
    number: usize,
}

impl TextParts {
    /// Reads SQL statements. A text with open quotes has no parts.
    #[must_use]
    pub fn of(text: &str) -> TextParts {
        let mut tokens = tokenize(text, 1, 1).unwrap_or_default();
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let first = Level { is_query: true, ..Level::default() };
        let mut scan = Scan { tokens: &tokens, levels: vec![first], declares: false, parts: Vec::new(), clauses: 0 };
        scan.declares = scan.declares_table(0);
        (0..tokens.len()).for_each(|at| scan.token(at));
        while let Some(level) = scan.levels.pop() {
            scan.end(level);
        }
        TextParts(scan.parts)
    }

    /// The parts around these places, in the order of the text. Neighbours are merged.
    #[must_use]
    pub fn around(&self, places: &[Place]) -> Vec<TextPart> {
        let part_of = |place: &Place| {
            let around = self.0.iter().filter(|part| part.of.from <= *place && *place < part.of.to);
            around.max_by_key(|part| part.of.from)
        };
        let mut parts: Vec<NumberedPart> = places.iter().filter_map(part_of).copied().collect();
        parts.sort_by_key(|part| (part.of.from, part.of.to));
        parts.dedup_by_key(|part| part.of);
        let mut found: Vec<NumberedPart> = Vec::new();
        for part in parts {
            match found.last_mut() {
                Some(last) if last.clause == part.clause && last.number + 1 == part.number => {
                    (last.of.to, last.number) = (part.of.to, part.number);
                }
                _ => found.push(part),
            }
        }
        found.into_iter().map(|part| part.of).collect()
    }
}

/// A query, or other parentheses.
#[derive(Default)]
struct Level {
    is_query: bool,
    /// AND separates parts of the present clause.
    is_condition: bool,
    has_or: bool,
    /// The finished parts of the present clause, and the open one.
    ended: Vec<TextPart>,
    open: Option<TextPart>,
    /// The numbers of CASE without END, and of BETWEEN without AND.
    cases: usize,
    betweens: usize,
}

impl Level {
    fn end_part(&mut self) {
        self.ended.extend(self.open.take());
    }
}

/// The role of a token.
enum Bound {
    /// It belongs to a part.
    None,
    /// It separates two parts of a clause.
    Separator,
    /// It begins a clause.
    Clause { is_condition: bool },
}

struct Scan<'t> {
    tokens: &'t [TokenWithSpan],
    /// The last one is the innermost.
    levels: Vec<Level>,
    /// The present statement declares a table, so its parentheses contain columns.
    declares: bool,
    parts: Vec<NumberedPart>,
    clauses: usize,
}

impl Scan<'_> {
    fn token(&mut self, at: usize) {
        match &self.tokens[at].token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let is_list = self.declares && self.levels.len() == 1;
                let is_query = self.tokens[at].token == Token::LParen
                    && (is_list || matches!(self.word(at + 1), Keyword::SELECT | Keyword::WITH | Keyword::VALUES));
                self.extend(at);
                self.levels.push(Level { is_query, ..Level::default() });
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if self.levels.len() > 1
                    && let Some(level) = self.levels.pop()
                {
                    self.end(level);
                }
                self.extend(at);
            }
            _ => match self.bound(at) {
                Bound::None => self.extend(at),
                Bound::Separator => {
                    if let Some(level) = self.levels.last_mut() {
                        level.end_part();
                    }
                }
                Bound::Clause { is_condition } => self.begin_clause(is_condition),
            },
        }
        match self.tokens[at].token {
            Token::SemiColon => self.declares = self.declares_table(at + 1),
            _ => self.declares &= self.word(at) != Keyword::SELECT,
        }
    }

    fn begin_clause(&mut self, is_condition: bool) {
        if let Some(level) = self.levels.pop() {
            let is_query = level.is_query;
            self.end(level);
            self.levels.push(Level { is_query, is_condition, ..Level::default() });
        }
    }

    /// Ends the present clause of a level.
    fn end(&mut self, mut level: Level) {
        level.end_part();
        let Level { mut ended, has_or, .. } = level;
        let clause = self.clauses;
        self.clauses += 1;
        // AND binds tighter than OR, so the whole clause is one part.
        if has_or && let (Some(first), Some(last)) = (ended.first().copied(), ended.last().copied()) {
            ended = vec![TextPart { from: first.from, to: last.to }];
        }
        self.parts.extend(ended.into_iter().enumerate().map(|(number, of)| NumberedPart { of, clause, number }));
    }

    /// Adds the token to the open part of its level.
    fn extend(&mut self, at: usize) {
        let span = self.tokens[at].span;
        let (Some(level), Some(from), Some(to)) = (self.levels.last_mut(), place_of(span.start), place_of(span.end))
        else {
            return;
        };
        if level.is_query {
            level.open.get_or_insert(TextPart { from, to }).to = to;
        }
    }

    fn word(&self, at: usize) -> Keyword {
        match self.tokens.get(at).map(|token| &token.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        }
    }

    /// Whether a statement begins with `CREATE [OR REPLACE] [TEMPORARY] TABLE`.
    fn declares_table(&self, first: usize) -> bool {
        self.word(first) == Keyword::CREATE && (first + 1..first + 5).any(|at| self.word(at) == Keyword::TABLE)
    }

    fn bound(&mut self, at: usize) -> Bound {
        const CLAUSE: Bound = Bound::Clause { is_condition: false };
        let (word, next) = (self.word(at), self.word(at + 1));
        let before = at.checked_sub(1).map_or(Keyword::NoKeyword, |before| self.word(before));
        let token = |at: usize| self.tokens.get(at).map(|token| &token.token);
        let (is_comma, is_end) = (token(at) == Some(&Token::Comma), token(at) == Some(&Token::SemiColon));
        let counts = matches!(token(at + 1), Some(Token::Number(..)));
        let opens = token(at + 1) == Some(&Token::LParen);
        let names_window = self.word(at + 2) == Keyword::AS;
        let Some(level) = self.levels.last_mut().filter(|level| level.is_query) else { return Bound::None };
        match word {
            _ if is_end => return CLAUSE,
            Keyword::CASE => level.cases += 1,
            Keyword::END if level.cases > 0 => level.cases -= 1,
            _ if level.cases > 0 => {}
            // A comma after ON separates tables.
            _ if is_comma => return if level.is_condition { CLAUSE } else { Bound::Separator },
            Keyword::BETWEEN => level.betweens += 1,
            Keyword::AND if level.betweens > 0 => level.betweens -= 1,
            Keyword::AND if level.is_condition => return Bound::Separator,
            Keyword::OR => level.has_or |= level.is_condition,
            Keyword::WHERE | Keyword::HAVING | Keyword::QUALIFY | Keyword::ON => {
                return Bound::Clause { is_condition: true };
            }
            word if begins_clause(word, before, next) => return CLAUSE,
            Keyword::LIMIT | Keyword::OFFSET if counts => return CLAUSE,
            Keyword::VALUES if opens => return CLAUSE,
            Keyword::WINDOW if names_window => return CLAUSE,
            _ => {}
        }
        Bound::None
    }
}

/// Whether a word belongs to the keywords that begin a clause without conditions. `before` and `next` are the
/// words around it.
fn begins_clause(word: Keyword, before: Keyword, next: Keyword) -> bool {
    use Keyword as Is;
    match word {
        Is::SELECT | Is::UNION | Is::EXCEPT | Is::INTERSECT | Is::JOIN | Is::USING | Is::END => true,
        // `a IS DISTINCT FROM b`.
        Is::FROM => before != Is::DISTINCT,
        Is::DISTINCT | Is::ALL => matches!(before, Is::SELECT | Is::UNION | Is::EXCEPT | Is::INTERSECT),
        Is::GROUP | Is::ORDER => next == Is::BY,
        Is::BY => matches!(before, Is::GROUP | Is::ORDER),
        Is::CROSS | Is::INNER | Is::LEFT | Is::RIGHT | Is::FULL | Is::NATURAL | Is::OUTER | Is::SEMI | Is::ANTI => {
            matches!(next, Is::JOIN | Is::INNER | Is::LEFT | Is::RIGHT | Is::FULL | Is::OUTER | Is::SEMI | Is::ANTI)
        }
        // `WITH ORDINALITY`, `TIMESTAMP WITH LOCAL TIME ZONE`.
        Is::WITH => !matches!(next, Is::ORDINALITY | Is::LOCAL | Is::TIME),
        Is::INSERT => next == Is::INTO,
        Is::INTO => before == Is::INSERT,
        Is::SET => before == Is::STATEMENT,
        Is::FETCH => matches!(next, Is::FIRST | Is::NEXT),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
