//! The typed host API: what goes in, what comes out, and what is refused.

use std::time::Duration;
use vyre::Program;
use vyre::host::{ErrorKind, Kernel};
use vyre::ir::Axis;
use vyre::ir::builder::Number;
use vyre::reference::Schedule;

const SAXPY: &str = include_str!("../../../examples/saxpy.vyre");

fn saxpy() -> Kernel {
    Kernel::parse(SAXPY).unwrap()
}

/// A kernel that adds a constant to each element.
fn add<T: Number>(constant: T) -> Kernel {
    let program = Program::build("add", [32, 1, 1], |k| {
        let y = k.read_write::<T>("y", 0).output();
        let i = k.global_id(Axis::X);
        y.put(i, y.at(i) + constant);
    });
    Kernel::new(&program.unwrap()).unwrap()
}

#[test]
fn elements_of_every_width_go_in_and_come_out() {
    fn check<T: Number + PartialEq + std::fmt::Debug>(input: [T; 2], by: T, output: [T; 2]) {
        let result = add(by).launch().input("y", &input).run().unwrap();
        assert_eq!(result.get::<T>("y").unwrap(), output);
    }
    check([1u32, u32::MAX], 1, [2, 0]);
    check([-5i32, i32::MAX], 1, [-4, i32::MIN]);
    check([1u64 << 40, u64::MAX], 1, [(1 << 40) + 1, 0]);
    check([-5i64, i64::MAX], 1, [-4, i64::MIN]);
    check([1.5f32, -0.0], 0.25, [1.75, 0.25]);
    check([1.5f64, 1e300], 0.25, [1.75, 1e300]);
    let half = |x: f32| half::f16::from_f32(x);
    check([half(1.5), half(2048.0)], half(1.0), [half(2.5), half(2048.0)]);
}

#[test]
fn small_integers_wrap_in_memory() {
    let program = Program::build("inc", [1, 1, 1], |k| {
        let y = k.read_write::<u8>("y", 0).output();
        k.for_(..y.len(), |i| y.put(i, y.at(i) + 1));
    });
    let kernel = Kernel::new(&program.unwrap()).unwrap();
    let output = kernel.launch().input("y", &[1u8, 255]).grid([1, 1, 1]).run().unwrap();
    assert_eq!(output.get::<u8>("y").unwrap(), [2, 0]);
}

#[test]
fn outputs_have_sizes_and_the_grid_follows() {
    let kernel = saxpy();
    let launch = kernel.launch().input("a", &[3.0f32]).input("x", &[1.0f32; 100]);
    let output = launch.size("y", 100).run().unwrap();
    assert_eq!(output.get::<f32>("y").unwrap(), [3.0; 100]);
    assert_eq!(output.grid(), [2, 1, 1]);
    assert_eq!(output.outputs().count(), 1);
    assert_eq!(output.backend(), "cpu");
}

#[test]
fn every_schedule_gives_the_same_bytes() {
    let kernel = Kernel::parse(include_str!("../../../examples/reduce.vyre")).unwrap();
    let x: Vec<u32> = (0..1000).collect();
    let run = |schedule| {
        let launch = kernel.launch().input("x", &x).size("sums", 16).grid([16, 1, 1]);
        launch.schedule(schedule).run().unwrap().get::<u32>("sums").unwrap()
    };
    assert_eq!(run(Schedule::Forward).iter().sum::<u32>(), 999 * 500);
    assert_eq!(run(Schedule::Forward), run(Schedule::Reverse));
    assert_eq!(run(Schedule::Forward), run(Schedule::Shuffle(3)));
}

#[test]
fn mistakes_say_what_to_do() {
    let kernel = saxpy();
    let plane = Program::build("plane", [4, 1, 1], |k| {
        let y = k.read_write::<u32>("y", 0).output();
        y.put(k.global_id(Axis::X), k.global_id(Axis::Y));
    });
    let plane = Kernel::new(&plane.unwrap()).unwrap();
    let good = || kernel.launch().input("a", &[2.0f32]).input("x", &[1.0f32]);
    let cases = [
        (good().input("z", &[1.0f32]).run(), "no buffer `z`", "@a, @x, @y"),
        (good().input("y", &[1u32]).run(), "u32 are given", "slice of f32"),
        (good().input("x", &[1.0f32]).run(), "given twice", "once"),
        (good().run(), "how many elements `@y`", "`.size(\"y\", count)`, or `.input(\"y\", ...)`"),
        (kernel.launch().run(), "`@a` has no input", "`.input(\"a\", ...)` with a slice of f32"),
        (plane.launch().size("y", 4).run(), "no grid is given", "`.grid([x, y, z])`"),
        (good().size("y", 1 << 40).run(), "limit of 1073741824 bytes", "268435456"),
        (good().size("y", 1).backend("abacus").run(), "backend `abacus`", "reference"),
        (good().size("y", 1).grid([u32::MAX, 2, 1]).run(), "lanes", "fewer workgroups"),
        (good().bytes("y", vec![0; 3]).run(), "3 bytes", "bind 0 or 4 bytes"),
        (kernel.launch().size("a", 3).run(), "declared f32[1], and 3 elements", "size out"),
        (kernel.launch().input("a", &[1.0f32, 2.0]).run(), "bound with 2 elements", "exactly 1 element"),
    ];
    for (result, message, fix) in cases {
        let error = result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Launch, "{error}");
        assert!(error.message.contains(message) && error.fix.contains(fix), "{error}");
    }
    let output = good().size("y", 1).run().unwrap();
    assert!(output.get::<f64>("y").unwrap_err().fix.contains("`.get::<f32>(\"y\")`"));
    assert!(output.get::<f32>("z").unwrap_err().message.contains("no buffer `z`"));
}

#[test]
fn programs_that_are_wrong_are_refused_with_their_lines() {
    let error = Kernel::parse(&SAXPY.replace("lt.u32", "lt.f32")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Program);
    assert!(error.message.contains("kernel:11:") && !error.fix.is_empty(), "{error}");
    let error = Kernel::parse("program").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Program);
    let divergent = Program::build("divergent", [64, 1, 1], |k| {
        k.if_(k.local_index().eq(0), || k.barrier());
    });
    let error = Kernel::new(&divergent.unwrap()).unwrap_err();
    assert!(error.message.contains("error[V031] divergent:"), "{error}");
}

#[test]
fn traps_timeouts_and_races_are_distinguished() {
    let trap = Program::build("trap", [4, 1, 1], |k| {
        k.if_(k.local_index().eq(2), || k.trap(9));
    });
    let trap = Kernel::new(&trap.unwrap()).unwrap();
    let error = trap.launch().run().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Trap { code: 9, .. }), "{error:?}");
    let error = trap.launch().backend("reference").run().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Trap { code: 9, lane: Some([2, 0, 0]), .. }), "{error:?}");

    let long = Program::build("long", [1, 1, 1], |k| {
        let y = k.read_write::<u32>("y", 0).sized(1).output();
        k.for_(..u32::MAX, |i| y.put(0, i));
    });
    let kernel = Kernel::new(&long.unwrap()).unwrap();
    let error = kernel.launch().timeout(Duration::from_millis(20)).run().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);

    let race = Program::build("race", [4, 1, 1], |k| {
        k.read_write::<u32>("y", 0).sized(1).output().put(0, k.local_index());
    });
    let kernel = Kernel::new(&race.unwrap()).unwrap();
    assert_eq!(kernel.launch().check(true).run().unwrap().findings().len(), 1);
}
