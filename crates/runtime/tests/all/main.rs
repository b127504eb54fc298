//! The integration tests of the runtime as one program, which links once. The interleavings are programs of
//! their own: they compile parts of the crate with the primitives of a scheduler.

mod cut_sides;
mod epochs;
mod full_sinks;
mod hand_over;
mod order_and_bounds;
mod several_workers;
mod slow_start;
mod support;
mod writers;
