//! The options of the command.

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::time::Duration;
use vyre::reference::Schedule;
use vyre_terminal::ValueError;

const EXAMPLES: &str = "\
Examples:
  vyre run examples/saxpy.vyre                 run a kernel on the inputs it names itself
  vyre run k.vyre --in 'x=[1, 2, 3]' --size y=3
  vyre test examples                           run every `//@ run` directive below a folder
  vyre explain V031                            show a rule with a wrong and a right example
  vyre certify --backend cpu --quick           run the conformance suite on a backend

Exit codes:
  0    all is well
  1    findings: errors in a program, failed tests, differences, races; a backend that
       fails, a certificate that is rejected
  2    wrong usage: arguments, inputs, sizes, names
  3    a run failed: trap, timeout, out of memory, a backend that is not available; a
       certificate whose key is not trusted
  4    a file could not be read or written
  130  interrupted";

/// One kernel, the same bytes on every device.
#[derive(Parser)]
#[command(name = "vyre", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one JSON object instead of text
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check programs and report every finding
    #[command(
        after_help = "Examples:\n  vyre check kernel.vyre\n  vyre check src/kernels other.vyreb --json"
    )]
    Check(Files),
    /// Bring programs into their canonical layout
    #[command(
        after_help = "Examples:\n  vyre fmt kernel.vyre\n  vyre fmt --check examples\n  vyre fmt - < in.vyre > out.vyre"
    )]
    Fmt(Fmt),
    /// Run a kernel and show its outputs
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Run a kernel on every backend of this machine and compare the bytes
    #[command(
        after_help = "Examples:\n  vyre compare examples/saxpy.vyre\n  vyre compare k.vyre --backends reference,cpu --in 'x=rand(seed=1, count=4096)' --size y=4096"
    )]
    Compare(Compare),
    /// Show the backends of this machine: capabilities, limits, and why one is not available
    #[command(after_help = "Examples:\n  vyre devices\n  vyre devices --json")]
    Devices,
    /// Try what runs need on this machine, with a fix for each thing that fails
    #[command(after_help = "Examples:\n  vyre doctor\n  vyre doctor --json")]
    Doctor,
    /// Run the tests that program files are: `//@ run` and `//~ error` directives
    #[command(after_help = "Examples:\n  vyre test examples\n  vyre test a.vyre b.vyre --json")]
    Test(Files),
    /// Measure kernels on backends, beside the same work in Rust
    #[cfg(feature = "bench")]
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Bench),
    /// Optimise a program and print it
    #[command(
        after_help = "Examples:\n  vyre opt kernel.vyre\n  vyre opt kernel.vyre --passes fold,dce\n  vyre opt kernel.vyre --dump-passes steps\n  vyre opt kernel.vyre --ranges\n  vyre opt kernel.vyre --ranges --passes none"
    )]
    Opt(Opt),
    /// Show what a program becomes: machine code, PTX, SPIR-V, WGSL
    #[command(
        after_help = "Examples:\n  vyre lower kernel.vyre --target asm\n  vyre lower kernel.vyre --target ptx -o kernel.ptx\n  vyre lower kernel.vyre --target spirv -o kernel.spv\n  VYRE_CPU_EMITTER=avx2 vyre lower kernel.vyre --target asm"
    )]
    Lower(Lower),
    /// Convert between text and wire form
    #[command(
        after_help = "Examples:\n  vyre convert kernel.vyre kernel.vyreb\n  vyre convert kernel.vyreb -"
    )]
    Convert(Convert),
    /// Explain a finding's code with a wrong and a right example
    #[command(after_help = "Examples:\n  vyre explain V031\n  vyre explain          list every code")]
    Explain(Explain),
    /// Show the ops of the language
    #[command(after_help = "Examples:\n  vyre ops\n  vyre ops fma\n  vyre ops --json")]
    Ops(Ops),
    #[command(flatten)]
    Conform(vyre_conform::command::Command),
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  vyre completions bash > ~/.local/share/bash-completion/completions/vyre"
    )]
    Completions(Completions),
}

#[derive(ClapArgs)]
pub(crate) struct Files {
    /// Program files, folders to search for programs, or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct Fmt {
    /// Change nothing, and list the files that would change
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) files: Files,
}

const RUN_EXAMPLES: &str = "\
SPEC is one of:
  [1, 2, 3]                    elements as literals of the buffer's type
  [0; 1000]                    one element 1000 times
  hex\"00ff\"                    raw little-endian bytes
  @file.bin                    the raw little-endian bytes of a file
  rand(seed=7, count=4096)     random elements, the same everywhere

What the command line does not give is taken from the file's first `//@ run`
directive, if it has one. Without --in, --size and --grid the outputs are compared
with those it expects.

Examples:
  vyre run examples/saxpy.vyre
  vyre run k.vyre --in 'a=[2.0]' --in 'x=rand(seed=1, count=4096)' --size y=4096
  vyre run k.vyre --in x=@x.bin --size y=1024 --out y=y.bin
  vyre run k.vyre --check-races
  vyre run k.vyre --trace-lane 3,0,0";

/// The options that describe a launch.
#[derive(ClapArgs)]
pub(crate) struct LaunchArgs {
    /// The program: text or wire form, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Workgroups along x, y and z; derived from the first output if left out
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_counts, allow_hyphen_values = true)]
    pub(crate) grid: Option<[u32; 3]>,
    /// What a buffer starts with
    #[arg(long = "in", value_name = "NAME=SPEC")]
    pub(crate) inputs: Vec<String>,
    /// The number of elements of a buffer that starts at zero
    #[arg(long = "size", value_name = "NAME=COUNT")]
    pub(crate) sizes: Vec<String>,
    /// End the run with an error after this time: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(ClapArgs)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) launch: LaunchArgs,
    /// The backend that runs it; `auto` takes the best that can
    #[arg(long, value_name = "ID", default_value = "auto")]
    pub(crate) backend: String,
    /// Write an output's raw bytes to a file
    #[arg(long = "out", value_name = "NAME=FILE")]
    pub(crate) outputs: Vec<String>,
    /// How many values of each output to show: a number or `all`
    #[arg(long, value_name = "COUNT", value_parser = parse_show, allow_negative_numbers = true)]
    pub(crate) show: Option<usize>,
    /// Look for data races, out-of-bounds accesses and reads of unwritten workgroup memory
    #[arg(long)]
    pub(crate) check_races: bool,
    /// The order in which lanes run: forward, reverse or shuffle:SEED
    #[arg(long, value_name = "ORDER", default_value = "forward", value_parser = parse_schedule)]
    pub(crate) schedule: Schedule,
    /// Print every line that one lane runs, with its values
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_counts, allow_hyphen_values = true)]
    pub(crate) trace_lane: Option<[u32; 3]>,
    /// Show where the time went: enqueue, device, wait
    #[arg(long)]
    pub(crate) timing: bool,
    /// Record the driver's steps for Chrome's tracing page or Perfetto
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) launch: LaunchArgs,
    /// The backends to compare, the first being the measure; all that are linked if left out
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub(crate) backends: Option<Vec<String>>,
}

#[cfg(feature = "bench")]
const BENCH_EXAMPLES: &str = "\
Every contender must have the reference's results at a tiny size and plain Rust's at the
measured one, bit for bit. Ratios are to plain Rust with rayon: less is faster. Sizes
count what `--list` says; K, M and G are 2^10, 2^20 and 2^30.

Examples:
  vyre bench                                   all kernels on the backends of this machine
  vyre bench saxpy matmul --backend cpu,reference
  vyre bench matmul --size 1024 --baseline plain
  vyre bench --size saxpy=256M --size mix=64M --json
  vyre bench --backend none                    only the baselines
  vyre bench --backend wgpu --baseline native  what exact floats cost, by kernel and by op
  vyre bench --plot bench.svg
  vyre bench --quick                           tiny sizes: right results rather than times
  vyre bench --list";

#[cfg(feature = "bench")]
#[derive(ClapArgs)]
pub(crate) struct Bench {
    /// The kernels to measure, elementary functions by name or all of them as `math`; all other kernels if left out
    #[arg(value_name = "KERNEL")]
    pub(crate) kernels: Vec<String>,
    /// The backends to measure, or `none`. Left out, all that there are, the slow reference only if it is alone
    #[arg(long = "backend", value_name = "ID,...", value_delimiter = ',')]
    pub(crate) backends: Option<Vec<String>>,
    /// A size of all kernels that are named, or of one
    #[arg(long = "size", value_name = "[KERNEL=]COUNT", allow_negative_numbers = true)]
    pub(crate) sizes: Vec<String>,
    /// Which baselines take part: all, plain, device or none; native for wgpu with inexact floats
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = parse_baselines)]
    pub(crate) baseline: vyre_bench::Baselines,
    /// Samples of each contender; as many as fit a few seconds if left out
    #[arg(long, value_name = "COUNT", value_parser = parse_rounds, allow_negative_numbers = true)]
    pub(crate) rounds: Option<usize>,
    /// Tiny sizes, three samples, no limits: checks results rather than speed
    #[arg(long)]
    pub(crate) quick: bool,
    /// Draw the ratios as a plot
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// List the kernels with their sizes and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(ClapArgs)]
pub(crate) struct Opt {
    /// The program: text or wire form, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Run these passes in this order, instead of all; `none` runs none
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) passes: Option<Vec<String>>,
    /// Write the program between any two passes to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dump_passes: Option<PathBuf>,
    /// Mark each access of elements in the printed program: proven in bounds, or checked when it runs
    #[arg(long)]
    pub(crate) ranges: bool,
}

#[derive(ClapArgs)]
pub(crate) struct Lower {
    /// The program: text or wire form, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What it becomes: `asm` for this processor, under the lines it comes from, `ptx`, `spirv` or `wgsl`
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: String,
    /// The compute capability that PTX is for, times ten, 70 if left out; tensor cores take part from 80 on. A device that
    /// has no target of its own gets the newest older one
    #[arg(long, value_name = "NUMBER", value_parser = parse_sm, allow_negative_numbers = true)]
    pub(crate) sm: Option<u32>,
    /// PTX whose loops poll the cancel word, as for a dispatch that has a timeout or can be cancelled
    #[arg(long)]
    pub(crate) poll: bool,
    /// The float strategy of SPIR-V and WGSL: the device's instructions or integer emulation. The default was exact on every
    /// device that was tested
    #[arg(long, value_enum, value_name = "STRATEGY")]
    pub(crate) floats: Option<FloatStrategy>,
    /// Where it goes instead of standard output; `.spv` is SPIR-V as words
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How float ops are lowered, where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FloatStrategy {
    Native,
    Integers,
}

#[derive(ClapArgs)]
pub(crate) struct Convert {
    /// The program: text or wire form, or `-` for standard input
    #[arg(value_name = "IN")]
    pub(crate) from: PathBuf,
    /// Where it goes: `.vyre` for text, `.vyreb` for wire form, or `-` for the other form on standard output
    #[arg(value_name = "OUT")]
    pub(crate) to: PathBuf,
}

#[derive(ClapArgs)]
pub(crate) struct Explain {
    /// The code; without it, all are listed
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct Ops {
    /// An op to show in full
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

fn parse_counts(text: &str) -> Result<[u32; 3], ValueError> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    let counts: Result<Vec<u32>, _> = inside.split(',').map(|count| count.trim().parse()).collect();
    let counts = counts.ok().and_then(|counts| <[u32; 3]>::try_from(counts).ok());
    counts.ok_or_else(|| {
        ValueError::new("expected three numbers", "write them from 0 to 4294967295, like `16,1,1`")
    })
}

#[cfg(feature = "bench")]
fn parse_baselines(text: &str) -> Result<vyre_bench::Baselines, ValueError> {
    match text {
        "all" => Ok(vyre_bench::Baselines::All),
        "plain" => Ok(vyre_bench::Baselines::Plain),
        "device" => Ok(vyre_bench::Baselines::Device),
        "none" => Ok(vyre_bench::Baselines::None),
        "native" => Ok(vyre_bench::Baselines::Native),
        _ => Err(ValueError::new("no such choice", "write `all`, `plain`, `device`, `native` or `none`")),
    }
}

#[cfg(feature = "bench")]
fn parse_rounds(text: &str) -> Result<usize, ValueError> {
    let count = text.parse().ok().filter(|count| (1..=10_000).contains(count));
    count.ok_or_else(|| ValueError::new("not a count of samples", "write a number from 1 to 10000"))
}

fn parse_show(text: &str) -> Result<usize, ValueError> {
    match text {
        "all" => Ok(usize::MAX),
        _ => text.parse().map_err(|_| {
            ValueError::new("not a count", format!("write a number from 0 to {}, or `all`", usize::MAX))
        }),
    }
}

fn parse_sm(text: &str) -> Result<u32, ValueError> {
    let sm = text.parse().ok().filter(|sm| (70..=299).contains(sm));
    sm.ok_or_else(|| ValueError::new("not a compute capability times ten", "write a number from 70 to 299"))
}

fn parse_schedule(text: &str) -> Result<Schedule, ValueError> {
    match text.split_once(':') {
        None if text == "forward" => Ok(Schedule::Forward),
        None if text == "reverse" => Ok(Schedule::Reverse),
        Some(("shuffle", seed)) => seed.parse().map(Schedule::Shuffle).map_err(|_| {
            ValueError::new(
                "the seed is not a number",
                format!("write `shuffle:` and one from 0 to {}", u64::MAX),
            )
        }),
        _ => Err(ValueError::new("no such order", "write `forward`, `reverse` or `shuffle:7`")),
    }
}

fn parse_time(text: &str) -> Result<Duration, ValueError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(digits);
    let scale = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => 0,
    };
    let count: Option<u64> = count.parse().ok();
    match count.and_then(|count| count.checked_mul(scale)).filter(|millis| *millis > 0) {
        Some(millis) => Ok(Duration::from_millis(millis)),
        None => Err(ValueError::new(
            "not a time",
            "write a number from 1 on and its unit: `500ms`, `10s` or `2m`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use vyre_testkit::book::{Page, commands, pages};
    use vyre_testkit::repo;

    /// The arguments of a command line that runs `vyre`, however it is started.
    fn vyre_arguments(command: &[String]) -> Option<&[String]> {
        let command = match command {
            [script, rest @ ..] if script.ends_with("scripts/emulated-cuda") => rest,
            _ => command,
        };
        match command {
            [program, rest @ ..] if program == "vyre" || program.ends_with("/vyre") => Some(rest),
            [cargo, run, rest @ ..] if cargo == "cargo" && run == "run" => {
                let at = rest.iter().position(|word| word == "--")?;
                let other = rest[..at].windows(2).any(|pair| pair[0] == "-p" && pair[1] != "vyre-cli");
                (!other).then(|| &rest[at + 1..])
            }
            _ => None,
        }
    }

    #[test]
    fn the_command_lines_of_the_book_can_be_parsed() {
        let others = ["README.md", "CONTRIBUTING.md", "crates/vyre-cuda-emulator/README.md"];
        let others = others.map(|name| Page::read(&repo::root().join(name)));
        let (mut count, mut complaints) = (0, Vec::new());
        for page in pages().into_iter().chain(others) {
            for block in page.blocks.iter().filter(|block| block.language() == "sh") {
                for command in commands(&block.text) {
                    let Some(arguments) = vyre_arguments(&command) else { continue };
                    count += 1;
                    let words = ["vyre"].into_iter().chain(arguments.iter().map(String::as_str));
                    match Args::try_parse_from(words) {
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::DisplayHelp => {}
                        Err(error) => {
                            complaints.push(format!("{}:{}: {error}", page.name, block.line));
                        }
                    }
                }
            }
        }
        assert!(count > 0, "no page has a command line");
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn the_page_of_the_command_has_each_option() {
        let page = repo::read(&repo::root().join("docs/cli.md")).expect("it is there");
        let mut complaints = Vec::new();
        for command in Args::command().get_subcommands() {
            let heading = format!("\n## {}\n", command.get_name());
            let Some((_, section)) = page.split_once(&heading) else {
                complaints.push(format!("no section `{}`", command.get_name()));
                continue;
            };
            let section = section.split("\n## ").next().unwrap_or_default();
            for option in command.get_arguments() {
                let Some(long) = option.get_long().filter(|long| *long != "json") else { continue };
                let short = option.get_short().is_some_and(|short| section.contains(&format!("-{short} ")));
                if !short && !section.contains(&format!("--{long}")) {
                    complaints.push(format!("`{}` without --{long}", command.get_name()));
                }
            }
        }
        assert!(complaints.is_empty(), "docs/cli.md: {}", complaints.join("; "));
    }
}
