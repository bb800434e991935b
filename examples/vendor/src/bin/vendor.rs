//! The suite on this vendor's device: `vendor certify --quick`, `vendor certify --out vendor.cert`.

use std::process::ExitCode;
use vyre_vendor_example::{VendorBackend, VendorRuntime};

fn main() -> ExitCode {
    vyre_conform::main(|| VendorRuntime::open().map(VendorBackend::new))
}
