//! Names that are like a mistyped one, for the remedies of errors.

/// Shortest prefix that counts as the mistyped form of a longer name, in letters.
const BEGINNING_MIN: usize = 4;

/// The candidate that a mistyped name most likely means: a few letters differ, or one of the two begins with
/// the other, as `UPPERCASE` begins with `UPPER`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let allowed = 1.max(wanted.chars().count() / 3);
    let mut best: Option<(usize, usize, &str)> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        let shorter = wanted.len().min(lower.len());
        let begins = shorter >= BEGINNING_MIN && (wanted.starts_with(&lower) || lower.starts_with(&wanted));
        let rank = match distance(&wanted, &lower) {
            near if near <= allowed => (0, near),
            far if begins => (1, far),
            _ => continue,
        };
        let found = (rank.0, rank.1, candidate);
        best = Some(best.map_or(found, |best| best.min(found)));
    }
    best.map(|(.., candidate)| candidate)
}

/// The names sorted by likeness to `wanted`, the most similar first.
#[must_use]
pub fn by_likeness<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut ranked: Vec<_> = names.into_iter().map(|name| (distance(wanted, name), name)).collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, name)| name).collect()
}

/// Number of letters to change, add, omit, or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swapped = if swapped { table[i - 2][j - 2] + 1 } else { usize::MAX };
                changed.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1).min(swapped)
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_a_slip_explains() {
        let names = ["cot", "count", "sum", "upper"];
        for (typed, meant) in [
            ("cuont", Some("count")),
            ("COUNT", Some("count")),
            ("summ", Some("sum")),
            ("avg", None),
            ("UPPERCASE", Some("upper")),
            ("summary", None),
        ] {
            assert_eq!(nearest(typed, names), meant, "{typed}");
        }
        assert_eq!(nearest("kafak", ["jdbc", "kafka", "upsert-kafka"]), Some("kafka"));
        assert_eq!(by_likeness("orders2", ["items", "orders"]), ["orders", "items"]);
    }
}
