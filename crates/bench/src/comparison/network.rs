//! The exchange between workers, compared with a bare sender and receiver of the same buffers.

use std::sync::Arc;

use anabranch_model::{Result, batch_bytes};

use super::{Scale, section};
use crate::contestant::program;
use crate::report::{Section, Table};
use crate::workload::{BLOCK_ROWS, Columns};
use crate::{engine, limit};

/// For numbers and for strings: throughput, and what the parts cost.
pub(crate) fn network(scale: Scale) -> Result<Vec<Section>> {
    let shapes = [
        ("4 columns of numbers", Columns::numbers(scale.keys, scale.seed)?),
        ("2 columns of numbers and 2 of strings of 20 to 40 bytes", Columns::strings(scale.keys, scale.seed)?),
    ];
    let mut sections = Vec::new();
    let mut costs = Vec::new();
    for (shape, columns) in shapes {
        let bytes = batch_bytes(&columns.batches[0]);
        let parts = engine::network_parts(&columns)?;
        costs.extend(parts.into_iter().map(|(part, ns)| (format!("{shape}: {part}"), format!("{ns:.2} ns per row"))));
        let columns = Arc::new(columns);
        let (bare, encrypted) = (Arc::clone(&columns), Arc::clone(&columns));
        sections.push(section(
            &format!("Exchange between workers: {shape}"),
            format!(
                "{} rows in batches of {BLOCK_ROWS} ({bytes} bytes) from one thread to another over a local socket. The limit writes \
                 the lengths and the bytes of the same buffers, and reads them into the same memory every time; the exchange has \
                 credits and validated arrays. With TLS it is the exchange between machines.",
                columns.rows()
            ),
            vec![
                program("limit: bare sender and receiver", move || limit::network::pair(&bare)),
                program("engine: exchange", move || engine::exchange(&columns, false)),
                program("engine: exchange with TLS", move || engine::exchange(&encrypted, true)),
            ],
            1,
            scale,
        )?);
    }
    sections.push(Section {
        title: "Exchange between workers: parts".into(),
        note: "Processor time without sockets and threads. The sender encodes, the receiver decodes.".into(),
        table: Table::Values(costs),
    });
    Ok(sections)
}
