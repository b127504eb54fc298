//! Divides an answer into its rows: the elements of a JSON array, or the single object. The decoder checks
//! that these are JSON.

/// The rows of an answer; none if it is empty or `null`. Fails if it is neither an array nor an object.
pub(super) fn elements(answer: &[u8]) -> Result<Vec<&[u8]>, String> {
    let answer = answer.trim_ascii();
    match answer.first() {
        None => Ok(Vec::new()),
        Some(b'{') => Ok(vec![answer]),
        Some(b'[') => of_array(answer),
        Some(_) if answer == b"null" => Ok(Vec::new()),
        Some(_) => Err("it is neither an object nor an array".to_owned()),
    }
}

fn of_array(answer: &[u8]) -> Result<Vec<&[u8]>, String> {
    let (mut found, mut depth, mut begin, mut in_string, mut escaped) = (Vec::new(), 0_usize, 1, false, false);
    for (at, byte) in answer.iter().enumerate() {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b',' if depth == 1 => {
                found.push(answer[begin..at].trim_ascii());
                begin = at + 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    let last = answer[begin..at].trim_ascii();
                    if !(last.is_empty() && found.is_empty()) {
                        found.push(last);
                    }
                    return match at + 1 == answer.len() {
                        true => Ok(found),
                        false => Err("something follows the end of the array".to_owned()),
                    };
                }
            }
            _ => {}
        }
    }
    Err("the array does not end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(answer: &str) -> Result<Vec<String>, String> {
        let found = elements(answer.as_bytes())?;
        Ok(found.into_iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect())
    }

    #[test]
    fn an_answer_is_divided_where_its_rows_end() {
        let answer = r#" [ {"a": [1, 2], "b": "],[\"\\"} , {"a": {"x": 1}},{} ] "#;
        let rows = [r#"{"a": [1, 2], "b": "],[\"\\"}"#, r#"{"a": {"x": 1}}"#, "{}"].map(str::to_owned);
        assert_eq!(texts(answer), Ok(rows.to_vec()));
        assert_eq!(texts(r#"{"a": 1}"#), Ok(vec![r#"{"a": 1}"#.to_owned()]));
        for empty in ["", " ", "null", "[]", "[ ]"] {
            assert_eq!(texts(empty), Ok(Vec::new()), "{empty}");
        }
        assert_eq!(texts("[,]").map(|rows| rows.len()), Ok(2), "the decoder refuses the empty rows");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for wrong in ["7", "\"a\"", "[{}", "[\"a]", "[{}] x", "nothing"] {
            assert!(texts(wrong).is_err(), "{wrong}");
        }
    }
}
