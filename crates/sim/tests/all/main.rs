//! Simulated runs of the protocol and of the engine as one program, which links once.

mod engine;
mod seeds;
