//! Findings of one kind never crowd out those of another.

use vyre_foundation::text;
use vyre_foundation::validate::validate;
use vyre_reference::{FINDINGS_MAX, FindingKind, Launch, Options, run};

#[test]
fn a_race_is_found_behind_any_number_of_accesses_out_of_bounds() {
    let loads: String =
        (0..FINDINGS_MAX + 10).map(|i| format!("  %a{i} = load.u32 @x[{}]\n", i + 5)).collect();
    let source = format!(
        "program @crowd workgroup(2, 1, 1) {{
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 1 output
{loads}  %l = local_id x
  store.u32 @y[0], %l
}}
"
    );
    let program = text::parse(&source).expect("it parses").program;
    let valid = validate(&program).expect("it is valid");
    let launch = Launch { grid: Some([1, 1, 1]), buffers: vec![vec![0; 4], vec![0; 4]] };
    let outcome = run(&valid, launch, &Options { check: true, ..Options::default() }).expect("it runs");
    let races = outcome.findings.iter().filter(|finding| finding.kind == FindingKind::Race).count();
    assert_eq!((races, outcome.findings.len()), (1, FINDINGS_MAX + 1));
}
