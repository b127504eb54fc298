//! Real threads of real processes: the kernel gives them the shares that were asked for, and everything is as
//! it was afterwards, also if osched is killed at any moment. The processes are this test program, started
//! again with a role.
//!
//! What needs rights that the user of the tests does not have is left out with a line that says so.

#[path = "kernel_real/bench.rs"]
mod bench;
#[path = "kernel_real/engine.rs"]
mod engine;
#[path = "kernel_real/killed.rs"]
mod killed;
#[path = "kernel_real/others.rs"]
mod others;
#[path = "kernel_real/shares.rs"]
mod shares;
#[path = "kernel_real/undone.rs"]
mod undone;
