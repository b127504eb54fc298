//! Records of dissimilar shapes, compared with general parsers.

use std::sync::Arc;

use anabranch_model::Result;

use super::{Scale, section};
use crate::contestant::program;
use crate::report::Section;
use crate::workload::{Shape, shaped};
use crate::{engine, limit};

/// One section for each shape, measured when it is asked for.
pub(crate) fn shapes(scale: Scale) -> impl Iterator<Item = Result<Section>> {
    Shape::ALL.into_iter().map(move |shape| shape_of(scale, shape))
}

fn shape_of(scale: Scale, shape: Shape) -> Result<Section> {
    let lines = Arc::new(shaped(shape, scale.events / 2, scale.seed));
    let by_hand = Arc::clone(&lines);
    let limit = match shape.is_csv() {
        true => program("limit: by hand, csv", move || limit::shapes::csv(&by_hand)),
        false => program("limit: by hand, serde_json", move || limit::shapes::json(&by_hand)),
    };
    let bytes = lines.bytes().len() as u64 / lines.count().max(1);
    section(
        &format!("Shapes: {}", shape.name()),
        format!(
            "{} records of {bytes} bytes; five fields are read, and counted per page, kind and 10 s window.",
            lines.count()
        ),
        vec![limit, engine::shapes(shape, &lines)?],
        1,
        Scale { repetitions: scale.repetitions.min(7), ..scale },
    )
}
