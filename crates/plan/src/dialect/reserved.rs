//! Words that only begin expressions of their own. If an error follows such a word, DataFusion's parser tries
//! it as a name too, and so parses the nested expressions twice.

use datafusion_sql::sqlparser::ast::Expr;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::Token;

/// Parses an expression that begins with such a word, if it follows.
pub(super) fn parse(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let Token::Word(word) = &parser.peek_token_ref().token else { return None };
    let keyword = word.keyword;
    let is_call = parser.peek_nth_token_ref(1).token == Token::LParen;
    let parse: fn(&mut Parser) -> Result<Expr, ParserError> = match keyword {
        Keyword::NOT => |parser| parser.parse_not(),
        Keyword::CASE => |parser| parser.parse_case_expr(),
        Keyword::INTERVAL => |parser| parser.parse_interval(),
        Keyword::CEIL if is_call => |parser| parser.parse_ceil_floor_expr(true),
        Keyword::FLOOR if is_call => |parser| parser.parse_ceil_floor_expr(false),
        Keyword::EXTRACT if is_call => |parser| parser.parse_extract_expr(),
        Keyword::TRIM if is_call => |parser| parser.parse_trim_expr(),
        Keyword::SUBSTR | Keyword::SUBSTRING if is_call => return Some(parser.parse_substring()),
        _ => return None,
    };
    parser.next_token();
    Some(parse(parser))
}
