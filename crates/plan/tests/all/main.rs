//! All integration tests of the planner as one program, which links once.

mod bounds;
mod connectors;
mod fuzz;
mod golden;
mod interactive;
mod origins;
mod sql_functions;
mod stage_parallelism;
