//! Programs without float types that give the same bytes.
