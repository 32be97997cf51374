//! Decode, relocate, encode x86-64; bytes in, bytes out
