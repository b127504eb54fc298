//! Carries out what `schedule` decides, for engines that run in other processes of this machine: drivers read
//! what engines and the kernel report, translators turn priorities into writes, and a journal with a guardian
//! undoes them.
//!
//! ```text
//! engines ──driver──▶ Graph, Readings ──schedule──▶ Schedule ──translator──▶ Write ──journal──▶ kernel
//! ```

pub mod config;
pub mod control;
pub mod driver;
pub mod graphite;
pub mod guardian;
pub mod http;
pub mod journal;
pub mod jvm;
pub mod kernel;
pub mod permission;
pub mod program;
pub mod prometheus;
pub mod run;
pub mod status;
pub mod translator;
