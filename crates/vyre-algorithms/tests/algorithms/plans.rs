//! What all plans have in common.

use crate::common::{cpu, random};
use vyre_algorithms::{Dfa, Fold, Plan, Role, Scan, Shape};
use vyre_driver::VyreBackend;

fn plans() -> Vec<Plan> {
    let dfa = Dfa::new(3, |state, byte| ((state + u32::from(byte)) % 3, byte & 7 == 0)).unwrap();
    let shape = Shape { m: 130, n: 9, k: 20 };
    let plans = [
        Plan::reduce::<f32>(Fold::Add, 5000),
        Plan::reduce::<i32>(Fold::Min, 5000),
        Plan::scan::<u32>(Scan::Inclusive, 5000),
        Plan::compact::<u32>(5000),
        Plan::sort(5000, true),
        Plan::histogram(70_001),
        Plan::matmul(shape),
        Plan::matmul_i8(shape),
        Plan::sha256(3, 5),
        Plan::dfa(40, 30, &dfa),
    ];
    plans.into_iter().map(|plan| plan.expect("its size is fine")).collect()
}

/// Any bytes, but small numbers: places in a text among them.
fn inputs(plan: &Plan) -> Vec<Vec<u8>> {
    let sizes = plan.buffers.iter().filter(|buffer| buffer.role == Role::Input).map(|buffer| buffer.byte_len);
    let byte = |at: usize| if at.is_multiple_of(4) { random(4, at) as u8 } else { 0 };
    sizes.map(|size| (0..size).map(byte).collect()).collect()
}

/// Large grids have rows of workgroups of which the last need not be full.
#[test]
fn more_workgroups_than_needed_change_nothing() {
    let cpu = cpu();
    for plan in plans() {
        let inputs = inputs(&plan);
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let expected = plan.run(&cpu, &inputs).unwrap();
        let mut more = plan.clone();
        for step in &mut more.steps {
            step.grid[1] += 1;
            step.on_processors.iter_mut().for_each(|(_, grid)| grid[1] += 1);
        }
        assert!(more.run(&cpu, &inputs).unwrap() == expected, "{}", plan.programs[0].name());
    }
}

/// Outputs are overwritten, whatever they held: a second run on the same memory gives the same.
#[test]
fn a_prepared_plan_runs_again() {
    let cpu = cpu();
    for plan in plans() {
        let sizes = |role: Role| {
            let of = plan.buffers.iter().filter(move |buffer| buffer.role == role);
            of.map(|buffer| cpu.allocate_resident(buffer.byte_len).unwrap()).collect::<Vec<_>>()
        };
        let (from, to) = (sizes(Role::Input), sizes(Role::Output));
        for (resource, bytes) in from.iter().zip(inputs(&plan)) {
            cpu.upload_resident(resource, &bytes).unwrap();
        }
        let prepared = plan.prepare(&cpu).unwrap();
        let run = || {
            prepared.run(&from, &to).unwrap();
            to.iter().map(|resource| cpu.download_resident(resource).unwrap()).collect::<Vec<_>>()
        };
        assert!(run() == run(), "{}", plan.programs[0].name());
        let error = prepared.run(&to, &from).err();
        let same = from.len() == to.len()
            && from
                .iter()
                .zip(&to)
                .all(|(from, to)| cpu.resident_byte_len(from).unwrap() == cpu.resident_byte_len(to).unwrap());
        assert!(same || error.is_some_and(|error| error.to_string().contains("Fix:")));
    }
}

/// Admission and the interpreter take programs as they are: none may be invalid, and none needs an unusual device.
#[test]
fn programs_are_valid_and_modest() {
    for program in plans().iter().flat_map(|plan| &plan.programs) {
        let valid = vyre_foundation::validate::validate(program);
        assert!(valid.is_ok(), "{}: {valid:?}", program.name());
        assert!(program.parts().workgroup.iter().product::<u32>() <= 256, "{}", program.name());
    }
}
