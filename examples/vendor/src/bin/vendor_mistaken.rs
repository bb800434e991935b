//! The same device with a mistake in the runtime: what the suite says about a backend that is wrong.

use std::process::ExitCode;
use vyre_vendor_example::{Mistake, VendorBackend, VendorRuntime};

fn main() -> ExitCode {
    let open = || VendorRuntime::open().map(|runtime| runtime.with_mistake(Mistake::RoundsWorkgroupsDown));
    vyre_conform::main(|| open().map(VendorBackend::new))
}
