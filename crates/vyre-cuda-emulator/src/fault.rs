//! What a kernel or a call did wrong: the code that hardware would return, and a sentence that says what happened.

use std::fmt;

/// The codes of CUDA's driver API that the emulator returns, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Code {
    Success = 0,
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    Deinitialized = 4,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidImage = 200,
    InvalidContext = 201,
    NoBinaryForGpu = 209,
    EccUncorrectable = 214,
    UnsupportedLimit = 215,
    PeerAccessUnsupported = 217,
    InvalidPtx = 218,
    UnsupportedPtxVersion = 222,
    InvalidSource = 300,
    FileNotFound = 301,
    InvalidHandle = 400,
    IllegalState = 401,
    NotFound = 500,
    NotReady = 600,
    IllegalAddress = 700,
    LaunchOutOfResources = 701,
    LaunchTimeout = 702,
    PrimaryContextActive = 708,
    ContextIsDestroyed = 709,
    Assert = 710,
    HostMemoryAlreadyRegistered = 712,
    HostMemoryNotRegistered = 713,
    HardwareStackError = 714,
    IllegalInstruction = 715,
    MisalignedAddress = 716,
    InvalidAddressSpace = 717,
    InvalidPc = 718,
    LaunchFailed = 719,
    CooperativeLaunchTooLarge = 720,
    NotPermitted = 800,
    NotSupported = 801,
    StreamCaptureUnsupported = 900,
    StreamCaptureInvalidated = 901,
    StreamCaptureMerge = 902,
    StreamCaptureUnmatched = 903,
    StreamCaptureUnjoined = 904,
    StreamCaptureIsolation = 905,
    StreamCaptureImplicit = 906,
    CapturedEvent = 907,
    StreamCaptureWrongThread = 908,
    Unknown = 999,
}

/// A failure with its code. `message` is a whole sentence; for a kernel it names the line of the PTX, the thread and the
/// address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What the call returns.
    pub code: Code,
    /// What happened, for a person.
    pub message: String,
}

impl Fault {
    /// A fault with its sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}
