//! Code and buffers inside the target
