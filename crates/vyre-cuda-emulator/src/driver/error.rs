//! Names and texts of the codes that calls return, as CUDA's own library has them.
#![allow(unsafe_code)]

use super::ffi::Out;
use super::{anytime, invalid};
use crate::fault::Code;
use std::ffi::CStr;

/// Every code that the emulator returns.
#[rustfmt::skip]
const CODES: &[(Code, &CStr, &CStr)] = &[
    (Code::Success, c"CUDA_SUCCESS", c"no error"),
    (Code::InvalidValue, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (Code::OutOfMemory, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (Code::NotInitialized, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (Code::Deinitialized, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
    (Code::NoDevice, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (Code::InvalidDevice, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (Code::InvalidImage, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
    (Code::InvalidContext, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (Code::NoBinaryForGpu, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device"),
    (Code::EccUncorrectable, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered"),
    (Code::UnsupportedLimit, c"CUDA_ERROR_UNSUPPORTED_LIMIT", c"limit is not supported on this architecture"),
    (Code::PeerAccessUnsupported, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices"),
    (Code::InvalidPtx, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (Code::UnsupportedPtxVersion, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"the provided PTX was compiled with an unsupported toolchain."),
    (Code::InvalidSource, c"CUDA_ERROR_INVALID_SOURCE", c"device kernel image is invalid"),
    (Code::FileNotFound, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found"),
    (Code::InvalidHandle, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (Code::IllegalState, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state"),
    (Code::NotFound, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (Code::NotReady, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (Code::IllegalAddress, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (Code::LaunchOutOfResources, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch"),
    (Code::LaunchTimeout, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (Code::PrimaryContextActive, c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", c"cannot set while device is active in this process"),
    (Code::ContextIsDestroyed, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed"),
    (Code::Assert, c"CUDA_ERROR_ASSERT", c"device-side assert triggered"),
    (Code::HostMemoryAlreadyRegistered, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"part or all of the requested memory range is already mapped"),
    (Code::HostMemoryNotRegistered, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region"),
    (Code::HardwareStackError, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error"),
    (Code::IllegalInstruction, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"an illegal instruction was encountered"),
    (Code::MisalignedAddress, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (Code::InvalidAddressSpace, c"CUDA_ERROR_INVALID_ADDRESS_SPACE", c"operation not supported on global/shared address space"),
    (Code::InvalidPc, c"CUDA_ERROR_INVALID_PC", c"invalid program counter"),
    (Code::LaunchFailed, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (Code::CooperativeLaunchTooLarge, c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", c"too many blocks in cooperative launch"),
    (Code::NotPermitted, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
    (Code::NotSupported, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (Code::StreamCaptureUnsupported, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing"),
    (Code::StreamCaptureInvalidated, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture"),
    (Code::StreamCaptureMerge, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"operation would result in a merge of separate capture sequences"),
    (Code::StreamCaptureUnmatched, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"capture was not ended in the same stream as it began"),
    (Code::StreamCaptureUnjoined, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"capturing stream has unjoined work"),
    (Code::StreamCaptureIsolation, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"dependency created on uncaptured work in another stream"),
    (Code::StreamCaptureImplicit, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", c"operation would make the legacy stream depend on a capturing blocking stream"),
    (Code::CapturedEvent, c"CUDA_ERROR_CAPTURED_EVENT", c"operation not permitted on an event last recorded in a capturing stream"),
    (Code::StreamCaptureWrongThread, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"attempt to terminate a thread-local capture sequence from another thread"),
    (Code::Unknown, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

fn find(
    code: u32,
    out: Out<usize>,
    part: impl Fn(&(Code, &'static CStr, &'static CStr)) -> &'static CStr,
) -> u32 {
    anytime(|| match CODES.iter().find(|(known, ..)| *known as u32 == code) {
        Some(row) => out.set(part(row).as_ptr() as usize),
        None => {
            out.set_if_asked(0);
            Err(invalid("there is no such code"))
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: u32, out: Out<usize>) -> u32 {
    find(code, out, |(_, name, _)| name)
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: u32, out: Out<usize>) -> u32 {
    find(code, out, |(_, _, text)| text)
}
