//! `eviction`: see `cli`.

fn main() {}
