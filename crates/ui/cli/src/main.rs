//! `trimtab`, the one binary.

fn main() {}
