//! Memory that stays on the device: resident buffers, sequences over them, and device buffers.

use super::{Check, Probe, Sample, calls, parse, problem, samples, scale, words};
use crate::batch::Plan;
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, ResidentDispatchStep, ResidentReadRange, Resource, VyreBackend,
};

/// The codes that may refuse a wrong handle.
const BAD_HANDLE: &[ErrorCode] = &[ErrorCode::BadHandle];
const BAD_RANGE: &[ErrorCode] = &[ErrorCode::InvalidLaunch];

impl Probe<'_> {
    /// Resident memory with those bytes; `None` if the driver has none and says so.
    fn upload(&mut self, contents: &[Vec<u8>]) -> Check<Option<Vec<Resource>>> {
        let mut resources = Vec::new();
        for bytes in contents {
            let allocated = self.driver.allocate_resident(bytes.len());
            let Some(resource) = self.optional("allocate_resident", allocated)? else {
                let claims = self.driver.supports_resident_dispatch();
                self.holds(!claims, || {
                    "resident dispatch is claimed, and allocation is not supported".into()
                })?;
                return Ok(None);
            };
            self.done("upload_resident", self.driver.upload_resident(&resource, bytes))?;
            resources.push(resource);
        }
        Ok(Some(resources))
    }

    fn free(&mut self, resources: Vec<Resource>) -> Check {
        resources.into_iter().try_for_each(|one| self.done("free_resident", self.driver.free_resident(one)))
    }

    fn resident(&mut self, what: &str, resource: &Resource, expected: &[u8]) -> Check {
        self.bytes(what, self.driver.download_resident(resource), expected)
    }
}

/// Allocation, uploads and downloads, whole and in ranges; dispatches leave their results there.
pub(super) fn memory(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    for sample in samples(plan) {
        let Some(resources) = probe.upload(&sample.inputs)? else { return Ok(()) };
        let result = driver.dispatch_resident_timed(&sample.program, &resources, &sample.config());
        probe.done("dispatch_resident_timed", result)?;
        let parts = sample.program.parts();
        let outputs = vyre_foundation::launch::bound_buffers(parts).into_iter().zip(&resources);
        let outputs = outputs.filter(|(id, _)| parts.buffer(*id).is_output());
        for ((_, resource), expected) in outputs.zip(&sample.outputs) {
            probe.resident(&format!("an output of @{}", sample.name()), resource, expected)?;
        }
        probe.free(resources)?;
    }
    ranges(&mut probe)?;
    Ok(())
}

fn ranges(probe: &mut Probe<'_>) -> Check {
    let driver = probe.driver;
    // Memory that was used before starts at zero again.
    let used = probe.done("allocate_resident", driver.allocate_resident(24))?;
    probe.done("upload_resident", driver.upload_resident(&used, &[0xff; 24]))?;
    probe.free(vec![used])?;
    let [a, b] = [24, 5].map(|bytes| driver.allocate_resident(bytes));
    let (a, b) = (probe.done("allocate_resident", a)?, probe.done("allocate_resident", b)?);
    probe.resident("new memory", &a, &[0; 24])?;
    probe.done("upload_resident_many", driver.upload_resident_many(&[(&a, &[1; 24]), (&b, &[2; 5])]))?;
    probe.done("upload_resident_at", driver.upload_resident_at(&a, 7, &[3, 4, 5]))?;
    let many: [(&Resource, usize, &[u8]); 3] = [(&a, 0, &[9]), (&b, 4, &[8]), (&a, 23, &[7])];
    probe.done("upload_resident_at_many", driver.upload_resident_at_many(&many))?;
    let mut expected = [1; 24];
    (expected[7], expected[8], expected[9], expected[0], expected[23]) = (3, 4, 5, 9, 7);
    probe.resident("memory after uploads", &a, &expected)?;
    probe.resident("memory after uploads", &b, &[2, 2, 2, 2, 8])?;
    probe.bytes("a range", driver.download_resident_range(&a, 6, 5), &expected[6..11])?;
    probe.bytes("an empty range", driver.download_resident_range(&a, 24, 0), &[])?;
    let mut out = vec![0xee; 77];
    probe.done("download_resident_into", driver.download_resident_into(&b, &mut out))?;
    probe.bytes("a whole download into a used vector", Ok(out.clone()), &[2, 2, 2, 2, 8])?;
    probe.done("download_resident_range_into", driver.download_resident_range_into(&a, 22, 2, &mut out))?;
    probe.bytes("a range into a used vector", Ok(out.clone()), &[1, 7])?;
    let mut other = Vec::new();
    let two = driver.download_resident_ranges_into(&[(&a, 7, 3), (&b, 0, 1)], &mut [&mut out, &mut other]);
    probe.done("download_resident_ranges_into", two)?;
    probe.bytes("two ranges", Ok([out, other].concat()), &[3, 4, 5, 2])?;
    probe.holds(driver.resident_byte_len(&a).is_ok_and(|len| len == 24), || {
        "resident_byte_len is not 24".into()
    })?;
    probe.free(vec![a, b])
}

/// Wrong handles, lengths, ranges and bindings are errors; a trap leaves what it could write undefined.
pub(super) fn faults(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let contents = [words(&[2]), words(&[1, 2]), words(&[5, 5])];
    let Some(resources) = probe.upload(&contents)? else { return Ok(()) };
    let (program, config) = (scale(), DispatchConfig::default());
    let [k, x, y] = [0, 1, 2].map(|at: usize| resources[at].clone());
    let run = |resources: &[Resource]| driver.dispatch_resident_timed(&program, resources, &config);
    let launch = &[ErrorCode::InvalidLaunch, ErrorCode::LimitExceeded];
    probe.refused("too short an upload", driver.upload_resident(&y, &[0; 7]), BAD_RANGE)?;
    probe.refused("too long an upload", driver.upload_resident(&y, &[0; 9]), BAD_RANGE)?;
    probe.refused("a range past the end", driver.upload_resident_at(&y, 6, &[0; 3]), BAD_RANGE)?;
    probe.refused("a range that overflows", driver.download_resident_range(&y, usize::MAX, 2), BAD_RANGE)?;
    let mut out = Vec::new();
    let uneven = driver.download_resident_ranges_into(&[(&y, 0, 1), (&y, 1, 1)], &mut [&mut out]);
    probe.refused("two ranges into one output", uneven, BAD_RANGE)?;
    probe.refused(
        "a handle that was never allocated",
        driver.download_resident(&Resource::Resident(u64::MAX - 5)),
        BAD_HANDLE,
    )?;
    probe.refused("one resource for two bindings", run(&[k.clone(), y.clone(), y.clone()]), BAD_HANDLE)?;
    probe.refused("two resources of three", run(&[k.clone(), x.clone()]), launch)?;
    probe.refused("a length that is not declared", run(&[x.clone(), k.clone(), y.clone()]), launch)?;
    probe.resident("memory after refusals", &y, &contents[2])?;
    probe.done("a dispatch after refusals", run(&resources))?;
    probe.resident("the output", &y, &words(&[7, 9]))?;
    // Bytes may travel with the call where the driver takes them.
    let borrowed = [Resource::Borrowed(words(&[3])), x.clone(), y.clone()];
    match run(&borrowed) {
        Ok(_) => probe.resident("an output beside borrowed bytes", &y, &words(&[10, 15]))?,
        refused => probe.refused("borrowed bytes", refused, BAD_HANDLE)?,
    }
    trapped(&mut probe)?;
    probe.free(resources)?;
    probe.refused("freeing twice", driver.free_resident(y.clone()), BAD_HANDLE)?;
    probe.refused("reading what was freed", driver.download_resident(&y), BAD_HANDLE)?;
    probe.refused("binding what was freed", run(&[k, x, y]), BAD_HANDLE)?;
    Ok(())
}

fn trapped(probe: &mut Probe<'_>) -> Check {
    let driver = probe.driver;
    let (program, config) = (calls::guard(), DispatchConfig::default());
    let Some(resources) = probe.upload(&[words(&[1, 0]), words(&[3, 3])])? else { return Ok(()) };
    let run = || driver.dispatch_resident_timed(&program, &resources, &config);
    let first = run();
    if !matches!(first, Err(BackendError::Trap { code: 7, .. })) {
        return Err(problem(format!("a resident dispatch: expected trap 7, and {first:?} came")));
    }
    probe.refused("reading what a trap left", driver.download_resident(&resources[1]), BAD_HANDLE)?;
    probe.resident("what a trap could not write", &resources[0], &words(&[1, 0]))?;
    probe.done("upload_resident", driver.upload_resident(&resources[0], &words(&[1, 1])))?;
    probe.refused("binding what a trap left", run(), BAD_HANDLE)?;
    probe.done("upload_resident", driver.upload_resident(&resources[1], &words(&[3, 3])))?;
    probe.done("a dispatch after the upload", run())?;
    probe.resident("the output after the upload", &resources[1], &words(&[1, 1]))?;
    probe.free(resources)
}

/// Steps run in order over memory that stays; repeated ones as often as asked.
pub(super) fn sequences(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let contents = [words(&[2]), words(&[1, 2, 3]), words(&[0, 0, 0])];
    let Some(resources) = probe.upload(&contents)? else { return Ok(()) };
    let (program, y) = (scale(), resources[2].clone());
    let shift = parse(
        "program @shift workgroup(1, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          %v = load.u32 @y[%i]
          %s = rotl.u32 %v, 1
          store.u32 @y[%i], %s
        }",
    );
    let only_y = [y.clone()];
    let add = ResidentDispatchStep { program: &program, resources: &resources, grid_override: None };
    let turn = ResidentDispatchStep { program: &shift, resources: &only_y, grid_override: Some([2, 1, 1]) };
    let range = ResidentReadRange { resource: &y, byte_offset: 4, byte_len: 8 };
    // The last two elements: `turn` doubles the first of them.
    let mut state = [0_u32, 0];
    let mut model = |steps: &[char]| {
        for step in steps {
            match step {
                '+' => (state[0], state[1]) = (state[0].wrapping_add(4), state[1].wrapping_add(6)),
                _ => state[0] = state[0].rotate_left(1),
            }
        }
        words(&state)
    };
    let mut out = vec![0xee; 40];
    let result =
        driver.dispatch_resident_sequence_read_ranges_into(&[add, turn, add], &[range], &mut [&mut out]);
    probe.done("a sequence", result)?;
    probe.bytes("a sequence", Ok(out.clone()), &model(&['+', '*', '+']))?;
    let result =
        driver.dispatch_resident_sequence_read_ranges_timed_into(&[turn, add], &[range], &mut [&mut out]);
    probe.done("a timed sequence", result)?;
    probe.bytes("a timed sequence", Ok(out.clone()), &model(&['*', '+']))?;
    for repeat in [0, 1, 3, plan.pick(20, 500)] {
        let result = driver.dispatch_resident_repeated_sequence_read_ranges_into(
            &[add],
            &[add, turn],
            repeat,
            &[range, range],
            &mut [&mut out, &mut Vec::new()],
        );
        probe.done("a repeated sequence", result)?;
        let steps: Vec<char> = ['+'].into_iter().chain(['+', '*'].repeat(repeat as usize)).collect();
        probe.bytes(&format!("a sequence repeated {repeat} times"), Ok(out.clone()), &model(&steps))?;
    }
    let none = driver.dispatch_resident_sequence_read_ranges_into(&[], &[range], &mut [&mut out]);
    probe.done("a sequence without steps", none)?;
    probe.bytes("a sequence without steps", Ok(out.clone()), &model(&[]))?;
    let uneven = driver.dispatch_resident_sequence_read_ranges_into(&[add], &[range], &mut []);
    probe.refused("a range without an output", uneven, BAD_RANGE)?;
    probe.bytes("what a refused sequence left", driver.download_resident_range(&y, 4, 8), &model(&[]))?;
    probe.free(resources)?;
    Ok(())
}

/// The same memory by typed handles.
pub(super) fn device_buffers(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let sample = Sample::new(&scale(), None, &[words(&[10]), words(&[1, 2]), words(&[0, 0])]);
    let mut buffers = Vec::new();
    for input in &sample.inputs {
        let allocated = driver.allocate_device_buffer(input.len());
        let Some(buffer) = probe.optional("allocate_device_buffer", allocated)? else {
            return Ok(());
        };
        let named = buffer.backend_id() == driver.id() && buffer.byte_len() == input.len();
        probe.holds(named, || "a device buffer has another backend or length".into())?;
        probe.bytes("a new device buffer", driver.download_device_buffer(&*buffer), &vec![0; input.len()])?;
        buffers.push(buffer);
    }
    let [k, x, y] = &mut buffers[..] else { unreachable!("three buffers were allocated") };
    probe.done("upload_device_buffer", driver.upload_device_buffer(&mut **k, &sample.inputs[0]))?;
    probe.done("upload_device_buffer", driver.upload_device_buffer(&mut **x, &sample.inputs[1]))?;
    probe.refused("too long an upload", driver.upload_device_buffer(&mut **x, &[0; 9]), BAD_RANGE)?;
    let config = DispatchConfig::default();
    let run = driver.dispatch_with_device_buffers(&sample.program, &[&**k, &**x], &mut [&mut **y], &config);
    probe.done("dispatch_with_device_buffers", run)?;
    probe.bytes("the output", driver.download_device_buffer(&**y), &sample.outputs[0])?;
    let short = driver.dispatch_with_device_buffers(&sample.program, &[&**k], &mut [&mut **y], &config);
    probe.refused("a missing input", short, BAD_RANGE)?;
    for buffer in buffers {
        probe.done("free_device_buffer", driver.free_device_buffer(buffer))?;
    }
    Ok(())
}
