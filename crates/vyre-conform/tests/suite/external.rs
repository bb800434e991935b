//! The rows of the WebAssembly test suite, through the suite's own path: packed for a vendor, and sent to a driver.
//!
//! Others wrote the expected results. The reference's own test reads the same files.

use vyre_conform::{Convention, DispatchConfig, OutputInit, ReferenceBackend, VyreBackend, check_program};
use vyre_foundation::ir::Program;
use vyre_foundation::text::parse;
use vyre_lower::convention::{Contents, pack};
use vyre_testkit::wasm::path;
use vyre_testkit::wasm::suite::{Row, Suite, observed, suites};

/// A function's rows as one launch, with the bytes that it must return.
struct Launch {
    name: String,
    program: Program,
    grid: [u32; 3],
    params: Vec<Vec<u8>>,
    expected: Vec<u8>,
    rows: usize,
}

fn launch(file: &str, suite: &Suite, function: usize) -> Option<Launch> {
    let (export, function_of) = &suite.functions[function];
    let rows: Vec<&Row> = suite.rows.iter().filter(|row| row.function == function).collect();
    let result = function_of.type_of(function_of.result);
    if rows.is_empty() {
        return None;
    }
    let params = function_of.params.iter().enumerate();
    Some(Launch {
        name: format!("external/{file}:{export}:{function}"),
        program: parse(&path::lanes(function_of)).expect("functions have a text").program,
        grid: [rows.len().div_ceil(64) as u32, 1, 1],
        params: params.map(|(at, ty)| path::column(*ty, rows.iter().map(|row| row.params[at]))).collect(),
        expected: path::column(result, rows.iter().map(|row| observed(result, &row.expected))),
        rows: rows.len(),
    })
}

/// What a vendor's backend returns for a launch, by the calling convention.
fn as_vendor(launch: &Launch, output_init: OutputInit) -> Vec<u8> {
    let params = launch.params.iter().map(|bytes| Contents::Bytes(bytes));
    let contents: Vec<Contents<'_>> = params.chain([Contents::Zeros(launch.expected.len())]).collect();
    let parts = launch.program.parts();
    let packed = pack(parts, launch.grid, &contents, false).expect("the launch fits the convention");
    let config = DispatchConfig {
        workgroup_size: parts.workgroup,
        workgroup_count: launch.grid,
        convention: Convention::V1,
        lookup_data: packed.lookup,
        output_init,
    };
    let (wire, size) = (launch.program.to_bytes(), packed.layout.output_bytes);
    let output = ReferenceBackend.dispatch_program(&wire, &packed.input, size, config);
    output.unwrap_or_else(|error| panic!("{}: {error}", launch.name))[packed.layout.outputs[0].1.clone()]
        .to_vec()
}

#[test]
fn external_rows_pass_through_both_faces() {
    let driver = vyre_driver::registry::open("reference").expect("it is linked");
    let inits = [OutputInit::Zero, OutputInit::Poison(0xa5), OutputInit::Uninitialized];
    let mut rows = 0;
    for (file, suite) in suites() {
        for launch in (0..suite.functions.len()).filter_map(|function| launch(file, &suite, function)) {
            for init in inits {
                assert_eq!(as_vendor(&launch, init), launch.expected, "{}", launch.name);
            }
            let zeros = vec![0; launch.expected.len()];
            let contents: Vec<Vec<u8>> = launch.params.iter().cloned().chain([zeros]).collect();
            if let Err(failure) = check_program(driver.as_ref(), &launch.program, launch.grid, &contents) {
                panic!("{}: {failure}", launch.name);
            }
            rows += launch.rows;
        }
    }
    eprintln!("{rows} external rows, packed for a vendor and sent to a driver");
    assert!(rows > 13_000, "only {rows} rows were taken");
}
