//! WebGPU's shading language.
