//! (Being written.)
fn main() {}
