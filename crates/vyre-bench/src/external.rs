//! The same work in hand-written CUDA, compiled by `nvcc` where it is installed, in a separate process.
//!
//! The source is `cuda/baselines.cu`, with the protocol of a few letters between the two processes. Its device times are
//! comparable with a backend's; its wall times include two pipes.
//!
//! Not here: anything for machines without `nvcc`. A note says that its rows are missing.

use crate::case::{Case, words};
use crate::contender::Contender;
use std::io::{BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use vyre::BackendError;

const SOURCE: &str = include_str!("../cuda/baselines.cu");

/// The compiled baselines.
pub(crate) struct Nvcc {
    program: PathBuf,
}

impl Nvcc {
    /// Compiles the baselines, or finds what an earlier run compiled from the same source.
    pub(crate) fn build() -> Result<Nvcc, String> {
        let digest = blake3::hash(SOURCE.as_bytes()).to_hex();
        let folder = std::env::temp_dir().join(format!("vyre-bench-{}", &digest[..16]));
        let program = folder.join("baselines");
        if program.is_file() {
            return Ok(Nvcc { program });
        }
        let failed = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
        std::fs::create_dir_all(&folder).map_err(|error| failed("no folder for the baselines", &error))?;
        let source = folder.join("baselines.cu");
        std::fs::write(&source, SOURCE).map_err(|error| failed("no file for the baselines", &error))?;
        // Under another name until it is whole: two runs may build at once.
        let fresh = folder.join(format!("fresh-{}", std::process::id()));
        let output = Command::new("nvcc")
            .args(["-O3", "-std=c++17", "-arch=native", "-fmad=false", "-o"])
            .args([&fresh, &source])
            .arg("-lcublas")
            .output()
            .map_err(|error| failed("nvcc does not start", &error))?;
        if !output.status.success() {
            return Err(failed("nvcc refuses the baselines", &String::from_utf8_lossy(&output.stderr)));
        }
        std::fs::rename(&fresh, &program).map_err(|error| failed("the baselines cannot be kept", &error))?;
        Ok(Nvcc { program })
    }
}

/// The library behind the CUDA baseline of a benchmark.
pub(crate) fn label(benchmark: &str) -> &'static str {
    match benchmark {
        "sum" | "tree" | "scan" | "histogram" | "sort" => "cub",
        "matmul" | "matmul_tiled" | "matmul_i8" => "cublas",
        _ => "nvcc",
    }
}

/// A child that has the case on its device.
pub(crate) struct External<'c> {
    case: &'c Case,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    exact: bool,
}

impl External<'_> {
    /// Hands the case to a child; `None` if it does not know the benchmark.
    pub(crate) fn new<'c>(
        nvcc: &Nvcc,
        benchmark: &str,
        size: u32,
        case: &'c Case,
    ) -> Result<Option<External<'c>>, BackendError> {
        let spawned = Command::new(&nvcc.program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| fault(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped")
        };
        let output = BufReader::new(output);
        let mut this = External { case, child, input, output, exact: true };
        this.send(&(benchmark.len() as u32).to_le_bytes())?;
        this.send(benchmark.as_bytes())?;
        this.send(&size.to_le_bytes())?;
        this.send_all(&case.reads)?;
        this.send_all(&case.start())?;
        let mut answer = [0];
        this.ask(&[], &mut answer)?;
        this.exact = answer == [1];
        Ok((answer != [0]).then_some(this))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), BackendError> {
        self.input.write_all(bytes).map_err(|error| fault(&error))
    }

    fn send_all(&mut self, buffers: &[Vec<u32>]) -> Result<(), BackendError> {
        self.send(&(buffers.len() as u32).to_le_bytes())?;
        for buffer in buffers {
            self.send(&(buffer.len() as u64 * 4).to_le_bytes())?;
            self.send(bytemuck::cast_slice(buffer))?;
        }
        Ok(())
    }

    fn ask(&mut self, letter: &[u8], answer: &mut [u8]) -> Result<(), BackendError> {
        self.send(letter)?;
        self.input.flush().and_then(|()| self.output.read_exact(answer)).map_err(|error| fault(&error))
    }
}

impl Contender for External<'_> {
    fn reset(&mut self) -> Result<(), BackendError> {
        self.ask(b"r", &mut [0])
    }

    fn run(&mut self) -> Result<Option<u64>, BackendError> {
        let mut ns = [0; 8];
        self.ask(b"g", &mut ns)?;
        Ok(Some(u64::from_le_bytes(ns)))
    }

    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        let sizes = self.case.writes.iter().map(|written| written.start.len() * 4);
        let mut buffers: Vec<Vec<u8>> = sizes.map(|bytes| vec![0; bytes]).collect();
        self.send(b"w")?;
        for buffer in &mut buffers {
            self.ask(&[], buffer)?;
        }
        Ok(buffers.iter().map(|bytes| words(bytes)).collect())
    }

    fn is_exact(&self) -> bool {
        self.exact
    }
}

impl Drop for External<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fault(error: &dyn std::fmt::Display) -> BackendError {
    let fix = "run the same benchmark with `--baseline plain`, or see what it wrote to standard error";
    BackendError::other(format!("the CUDA baseline ended: {error}"), fix)
}
