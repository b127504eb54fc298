//! From the keys of a probe row to the key's id in the static side, which does not change once it is
//! complete.
//!
//! A text is found by its head: the half of Arrow's view that has its length and first bytes, or the whole
//! view if the text lies in it. So the text itself is read once, for the comparison, and not at all if no key
//! has the same head. If many keys share a head, a table that hashes all bytes is used instead.

use std::borrow::Cow;

use anabranch_model::{Error, Result, hash_u64};
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::hash_keys;
use crate::key_hash::prefetch_text;
use crate::key_table::{INLINE, KeyTable, MISSING, prefetch, same_bytes};

/// The keys of a static side.
pub(super) enum Index {
    Table(KeyTable),
    Heads(Heads),
}

/// A hash table of texts by their heads.
pub(super) struct Heads {
    slots: Vec<Slot>,
    /// By id.
    keys: StringViewArray,
}

#[derive(Clone, Copy)]
struct Slot {
    /// Half of the head's hash: enough to reject most other heads.
    tag: u32,
    id: u32,
}

const EMPTY: Slot = Slot { tag: 0, id: MISSING };
/// At most one in this number of keys may share its head with another key.
const ALIKE: usize = 8;
/// A key may share its head with at most this number of other keys: all rows may have just these keys.
const ALIKE_MAX: usize = 4;
/// Up to this number of slots, at most one in four is used, beyond it one in two.
const SPARSE_SLOTS: usize = 1 << 12;
/// A table of more slots is prefetched.
const NEAR_SLOTS: usize = 1 << 15;
/// How many rows ahead.
const PREFETCH_DISTANCE: usize = 32;

impl Index {
    /// Indexes the keys by their heads, if they are texts and their heads distinguish them.
    pub(super) fn by_heads(self) -> Index {
        let Index::Table(table) = &self else { return self };
        // Texts that exceed an array stay in the table.
        let heads = match table.keys().as_deref() {
            Ok([column]) if column.data_type() == &DataType::Utf8View => Heads::new(column.as_string_view().clone()),
            _ => None,
        };
        heads.map_or(self, Index::Heads)
    }

    /// The id of each row's key, or [`MISSING`], as for keys with a NULL. `hashes` is reused memory.
    pub(super) fn lookup(
        &self,
        keys: &[ArrayRef],
        rows: usize,
        hashes: &mut Vec<u64>,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        match self {
            Index::Table(table) => {
                hash_keys(keys, rows, hashes)?;
                table.lookup(keys, hashes, ids)
            }
            Index::Heads(heads) => {
                let [column] = keys else { return Err(Error::internal("texts are keys of one column")) };
                let texts = match column.as_string_view_opt() {
                    Some(texts) => Cow::Borrowed(texts),
                    None => Cow::Owned(cast(column, &DataType::Utf8View)?.as_string_view().clone()),
                };
                heads.lookup(&texts, ids);
                Ok(())
            }
        }
    }
}

impl Heads {
    /// A table of these distinct keys. `None` if too many of them share a head.
    fn new(keys: StringViewArray) -> Option<Heads> {
        let mut size = (keys.len() * 4).next_power_of_two().max(4);
        if size > SPARSE_SLOTS {
            size = (keys.len() * 2).next_power_of_two().max(SPARSE_SLOTS);
        }
        let mut heads = Heads { slots: vec![EMPTY; size], keys };
        let mut alike = 0;
        for (id, view) in heads.keys.views().iter().enumerate().filter(|(id, _)| heads.keys.is_valid(*id)) {
            let hash = hash_of(*view);
            let (mut at, mut met) = (hash as usize & (size - 1), 0);
            while heads.slots[at].id != MISSING {
                met += usize::from(heads.slots[at].tag == tag_of(hash));
                at = (at + 1) & (size - 1);
            }
            alike += met;
            if met > ALIKE_MAX || alike * ALIKE > heads.keys.len() {
                return None;
            }
            heads.slots[at] = Slot { tag: tag_of(hash), id: id as u32 };
        }
        Some(heads)
    }

    fn lookup(&self, texts: &StringViewArray, ids: &mut Vec<u32>) {
        let (views, buffers) = (texts.views(), texts.data_buffers());
        let is_near = self.slots.len() <= NEAR_SLOTS;
        ids.clear();
        ids.extend(views.iter().enumerate().map(|(row, view)| {
            prefetch_text(views, buffers, row);
            if let Some(ahead) = views.get(row + PREFETCH_DISTANCE).filter(|_| !is_near) {
                prefetch(&self.slots, hash_of(*ahead) as usize & (self.slots.len() - 1));
            }
            self.find(*view, || texts.value(row).as_bytes())
        }));
        if let Some(nulls) = texts.nulls().filter(|nulls| nulls.null_count() > 0) {
            ids.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid).for_each(|(id, _)| *id = MISSING);
        }
    }

    #[inline]
    fn find<'a>(&self, view: u128, text: impl Fn() -> &'a [u8]) -> u32 {
        let mask = self.slots.len() - 1;
        let hash = hash_of(view);
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at & mask];
            if slot.id == MISSING || (slot.tag == tag_of(hash) && self.is(slot.id as usize, view, &text)) {
                return slot.id;
            }
            at += 1;
        }
    }

    #[inline]
    fn is<'a>(&self, id: usize, view: u128, text: &impl Fn() -> &'a [u8]) -> bool {
        let key = self.keys.views()[id];
        match is_inline(view) {
            true => key == view,
            false => key as u64 == view as u64 && same_bytes(self.keys.value(id).as_bytes(), text()),
        }
    }
}

#[inline]
fn is_inline(view: u128) -> bool {
    view as u32 as usize <= INLINE
}

#[inline]
fn hash_of(view: u128) -> u64 {
    let rest = if is_inline(view) { (view >> 64) as u64 } else { 0 };
    hash_u64(rest, view as u64)
}

#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use anabranch_model::Rng;
    use arrow::array::StringArray;

    use super::*;

    fn index(texts: &[Option<String>]) -> (Index, HashMap<String, u32>) {
        let column: ArrayRef = Arc::new(texts.iter().cloned().collect::<StringViewArray>());
        let mut table = KeyTable::new(vec![DataType::Utf8View]).expect("texts are keys");
        let mut ids = Vec::new();
        table.intern_rows(&[column], texts.len(), &mut Vec::new(), &mut ids).expect("interned");
        let ids_of_texts = texts.iter().zip(&ids).filter_map(|(text, id)| text.clone().map(|text| (text, *id as u32)));
        (Index::Table(table).by_heads(), ids_of_texts.collect())
    }

    /// Looks up all texts, of which some are keys, in columns of both kinds.
    fn check(there: &[Option<String>], others: &[Option<String>]) -> Index {
        let (index, ids_of) = index(there);
        let probes: Vec<_> = there.iter().chain(others).cloned().collect();
        let expected: Vec<u32> = probes
            .iter()
            .map(|text| text.as_ref().and_then(|text| ids_of.get(text)).map_or(MISSING, |id| *id))
            .collect();
        let views: ArrayRef = Arc::new(probes.iter().cloned().collect::<StringViewArray>());
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        index.lookup(&[Arc::clone(&views)], probes.len(), &mut hashes, &mut ids).expect("found");
        assert_eq!(ids, expected, "{probes:?}");
        if let Index::Heads(_) = index {
            let plain: ArrayRef = Arc::new(probes.iter().cloned().collect::<StringArray>());
            index.lookup(&[plain], probes.len(), &mut hashes, &mut ids).expect("found");
            assert_eq!(ids, expected, "{probes:?}");
        }
        let rest = views.slice(there.len(), others.len());
        index.lookup(&[rest], others.len(), &mut hashes, &mut ids).expect("found");
        assert_eq!(ids, expected[there.len()..], "{others:?}");
        index
    }

    #[test]
    fn finds_the_texts_that_are_there_and_no_others() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let hex = |rng: &mut Rng| format!("{:016x}-{:04x}", rng.next_u64(), rng.below(1 << 16));
            let short = |rng: &mut Rng| format!("{:x}", rng.below(1 << 20)).repeat(rng.below(3) as usize);
            let draw = |rng: &mut Rng, count: u64| -> Vec<Option<String>> {
                let text = |rng: &mut Rng| if seed % 2 == 0 { hex(rng) } else { short(rng) };
                (0..count).map(|_| (rng.below(20) > 0).then(|| text(rng))).collect()
            };
            let count = rng.below(3000);
            let there = draw(&mut rng, count);
            // Texts that differ from a key in the middle, at the end, or by being shorter.
            let mut others = draw(&mut rng, 500);
            for text in there.iter().flatten().take(300) {
                others.extend([
                    Some(text.replacen('-', "_", 1)),
                    Some(format!("{text}.")),
                    text.get(1..).map(Into::into),
                ]);
            }
            let index = check(&there, &others);
            assert!(matches!(index, Index::Heads(_)), "seed {seed}");
        }
    }

    #[test]
    fn texts_that_begin_alike_are_hashed_as_a_whole() {
        let texts = |range: std::ops::Range<u32>| range.map(|n| Some(format!("customer-{n:06}"))).collect::<Vec<_>>();
        assert!(matches!(check(&texts(0..1000), &texts(1000..1100)), Index::Table(_)));
        assert!(matches!(check(&texts(0..1), &texts(1..100)), Index::Heads(_)));
        assert!(matches!(check(&[], &texts(0..10)), Index::Heads(_)));
        // Some share their heads: they are distinguished.
        let mut some: Vec<_> =
            (0..900_u64).map(|n| Some(format!("{:08x}-customer", n.wrapping_mul(0x9e37_79b9)))).collect();
        some.extend(texts(0..5));
        assert!(matches!(check(&some, &texts(0..100)), Index::Heads(_)));
        // Heads distinguish most keys, but every row may have one of the others.
        some.extend(texts(5..6));
        assert!(matches!(check(&some, &texts(0..100)), Index::Table(_)));
    }
}
