//! Keyed count: keys are exchanged between workers; each worker counts its keys in the limit program's table.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_model::Result;
use timely::dataflow::ProbeHandle;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Operator, Probe};

use super::{Input, feed, run};
use crate::contestant::RunResult;
use crate::limit::count_table::CountTable;
use crate::workload::Keys;

/// Counts every key on `workers` workers.
pub(crate) fn keyed_count(keys: &Arc<Keys>, workers: usize) -> Result<RunResult> {
    let keys = Arc::clone(keys);
    run(workers, move |worker| {
        let table = Rc::new(RefCell::new(CountTable::new()));
        let counted = Rc::clone(&table);
        let mut input = Input::<i64>::new();
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            let by_key = Exchange::new(|key: &i64| key.cast_unsigned());
            input
                .to_stream(scope)
                .unary::<timely::container::CapacityContainerBuilder<Vec<()>>, _, _, _>(by_key, "Count", |_, _| {
                    move |input, _output| {
                        input.for_each(|_time, batch| counted.borrow_mut().count(batch));
                    }
                })
                .probe_with(&probe);
        });
        let mut blocks = keys.blocks.iter().skip(worker.index()).step_by(worker.peers());
        let rows = feed(worker, input, &probe, |batch| {
            if let Some(block) = blocks.next() {
                batch.extend_from_slice(block.values());
            }
        });
        let answer = table.borrow().answer();
        Ok((rows, answer))
    })
}
