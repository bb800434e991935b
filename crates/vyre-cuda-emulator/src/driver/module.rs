//! Modules: PTX or what the linker made of it, compiled and in a context's memory.
//!
//! A binary is a container of this library's own with the PTX in it, so it can be kept on disk and loaded by a later
//! process. Compiled programs are kept for a while, so that linking and then loading the result compiles once.
#![allow(unsafe_code)]

use super::capture;
use super::compiler::Made;
use super::context::Context;
use super::ffi::{In, Out};
use super::function::Function;
use super::state::Driver;
use super::{Call, lock, with_context};
use crate::engine::Loaded;
use crate::executor::Compiled;
use crate::fault::{Code, Fault};
use crate::model::Model;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How many compiled programs are kept.
const PROGRAMS_MAX: usize = 64;
const MAGIC: [u8; 8] = *b"\x93vyre\r\n\x01";
/// Magic, compute capability, optimization level, register limit, checksum and length of the text.
const HEADER_BYTES: usize = 8 + 3 * 4 + 2 * 8;

/// What of the compiler's options changes its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// `CU_JIT_OPTIMIZATION_LEVEL`.
    pub(super) optimization: u32,
    /// `CU_JIT_MAX_REGISTERS`; 0 for no limit.
    pub(super) registers_max: u32,
}

/// PTX with its options, as a linker takes and gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) source: String,
    pub(super) options: Options,
}

impl Image {
    /// What a pointer leads to, whose length only its bytes say. PTX is compiled with `options`; a binary was already.
    fn read(image: In<u8>, sm: u32, options: Options) -> Call<Image> {
        let starts_with = |magic: &[u8]| {
            magic.iter().enumerate().try_fold(true, |same, (at, byte)| {
                // The text may be shorter: what is behind the first difference must not be read.
                if same { Ok(image.at(at)? == *byte) } else { Ok::<_, Fault>(false) }
            })
        };
        if starts_with(&MAGIC)? {
            let header = image.list(HEADER_BYTES)?;
            let len = header.last_chunk().map_or(0, |len| u64::from_le_bytes(*len));
            // No PTX is as long as a damaged length may say.
            let len = usize::try_from(len).ok().filter(|len| *len < 1 << 30).ok_or_else(damaged)?;
            return Image::decode(&image.list(HEADER_BYTES + len)?, sm);
        }
        if starts_with(b"\x7fELF")? || starts_with(&[0x50, 0xed, 0x55, 0xba])? {
            let message = "machine code of NVIDIA's compilers cannot be run. Fix: load PTX";
            return Err(Fault::new(Code::NoBinaryForGpu, message));
        }
        Image::text(image.text()?, options)
    }

    pub(super) fn text(bytes: Vec<u8>, options: Options) -> Call<Image> {
        let wrong =
            || Fault::new(Code::InvalidImage, "the module is neither PTX nor a binary of this library");
        let source = String::from_utf8(bytes).map_err(|_| wrong())?;
        Ok(Image { source, options })
    }

    pub(super) fn encode(&self, sm: u32) -> Vec<u8> {
        let text = self.source.as_bytes();
        let mut bytes = MAGIC.to_vec();
        for number in [sm, self.options.optimization, self.options.registers_max] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(checksum(text).to_le_bytes());
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text);
        bytes
    }

    fn decode(bytes: &[u8], sm: u32) -> Call<Image> {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let text = &bytes[HEADER_BYTES..];
        if bytes[20..28] != checksum(text).to_le_bytes() {
            return Err(damaged());
        }
        if number(8) != sm {
            let message = format!("the module was compiled for sm_{}, and the device is sm_{sm}", number(8));
            return Err(Fault::new(Code::NoBinaryForGpu, message));
        }
        Image::text(text.to_vec(), Options { optimization: number(12), registers_max: number(16) })
    }

    /// The program, from those that are kept or from the compiler.
    pub(super) fn compile(&self, model: &Model) -> Call<Made> {
        let driver = Driver::get()?;
        let programs = &driver.programs;
        let is_this = |kept: &&Kept| kept.model == *model && kept.image == *self;
        if let Some(kept) = lock(&programs.0).iter().find(is_this) {
            return Ok(kept.made.clone());
        }
        let made = driver.compiler.compile(&self.source, &self.options, model)?;
        let kept = Kept { image: self.clone(), model: model.clone(), made: made.clone() };
        let mut programs = lock(&programs.0);
        programs.push_back(kept);
        if programs.len() > PROGRAMS_MAX {
            programs.pop_front();
        }
        Ok(made)
    }
}

fn damaged() -> Fault {
    Fault::new(Code::InvalidImage, "the module is damaged")
}

/// FNV-1a: it finds what a disk or a bug did, and is no protection against intent.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Compiled programs, the oldest first.
#[derive(Default)]
pub(super) struct Programs(Mutex<VecDeque<Kept>>);

struct Kept {
    image: Image,
    model: Model,
    made: Made,
}

/// The options of a compilation, and where its logs go.
pub(super) struct Jit {
    pub(super) options: Options,
    info: Log,
    error: Log,
    wall_time: Option<Out<f32>>,
    start: Instant,
}

/// A buffer for text, and where its filled size goes.
#[derive(Clone, Copy, Default)]
struct Log {
    buffer: Option<Out<u8>>,
    byte_len: usize,
    filled: Option<Out<u32>>,
}

impl Log {
    fn write(&self, text: &str) -> Call {
        if let Some(buffer) = self.buffer.filter(|_| self.byte_len > 0) {
            buffer.set_text(text, self.byte_len)?;
        }
        if let Some(filled) = self.filled {
            filled.set(text.len().min(self.byte_len.saturating_sub(1)) as u32)?;
        }
        Ok(())
    }
}

impl Jit {
    /// `CU_JIT_*` with their values. Those that only matter to NVIDIA's compiler have no effect.
    pub(super) fn read(count: u32, keys: In<u32>, values: Out<usize>) -> Call<Jit> {
        let options = Options { optimization: 4, registers_max: 0 };
        let (info, error) = Default::default();
        let mut jit = Jit { options, info, error, wall_time: None, start: Instant::now() };
        for at in 0..count as usize {
            let value = values.offset(at);
            let number = value.get()?;
            match keys.at(at)? {
                0 => jit.options.registers_max = number as u32,
                2 => jit.wall_time = Some(value.cast()),
                3 => jit.info.buffer = Some(Out::at_address(number)),
                4 => (jit.info.byte_len, jit.info.filled) = (number & 0xffff_ffff, Some(value.cast())),
                5 => jit.error.buffer = Some(Out::at_address(number)),
                6 => (jit.error.byte_len, jit.error.filled) = (number & 0xffff_ffff, Some(value.cast())),
                7 if number > 4 => return Err(super::invalid("the optimization level is above 4")),
                7 => jit.options.optimization = number as u32,
                _ => {}
            }
        }
        Ok(jit)
    }

    /// Compiles, with the compiler's words in the caller's buffers.
    pub(super) fn compile(&self, image: &Image, model: &Model) -> Call<Made> {
        let compiled = image.compile(model);
        let words = compiled.as_ref().err().map_or("", |fault| fault.message.as_str());
        self.error.write(words)?;
        self.info.write("")?;
        if let Some(time) = self.wall_time {
            time.set(self.start.elapsed().as_secs_f32() * 1e3)?;
        }
        compiled
    }
}

pub(super) struct Module {
    pub(super) handle: usize,
    pub(super) context: usize,
    pub(super) loaded: Arc<Loaded>,
    /// What a program outside made of it.
    pub(super) outside: Option<Compiled>,
}

fn load(context: &Arc<Context>, out: Out<usize>, image: In<u8>, jit: &Jit) -> Call {
    capture::forbid(context)?;
    let model = &context.device.model;
    let image = Image::read(image, model.sm, jit.options.clone())?;
    load_image(context, out, &image, jit)
}

fn load_image(context: &Arc<Context>, out: Out<usize>, image: &Image, jit: &Jit) -> Call {
    let driver = Driver::get()?;
    out.wanted()?;
    let Made { program, outside } = jit.compile(image, &context.device.model)?;
    let loaded = Arc::new(Loaded::new(program, &context.heap)?);
    let make = |handle| Module { handle, context: context.handle, loaded, outside };
    let module = driver.modules.insert(make);
    for kernel in 0..module.loaded.program.kernels.len() {
        driver.functions.insert(|handle| Function {
            handle,
            module: Arc::clone(&module),
            kernel,
            dynamic_shared_max: AtomicU32::new(
                context.device.model.shared_per_block.saturating_sub(module.kernel(kernel).shared_bytes),
            ),
        });
    }
    out.set(module.handle)
}

impl Module {
    pub(super) fn kernel(&self, number: usize) -> &crate::engine::Kernel {
        &self.loaded.program.kernels[number]
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(out: Out<usize>, image: In<u8>) -> u32 {
    with_context(|context| load(context, out, image, &Jit::read(0, In::at_address(0), Out::at_address(0))?))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadDataEx(
    out: Out<usize>,
    image: In<u8>,
    count: u32,
    keys: In<u32>,
    values: Out<usize>,
) -> u32 {
    with_context(|context| load(context, out, image, &Jit::read(count, keys, values)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoad(out: Out<usize>, path: In<u8>) -> u32 {
    with_context(|context| {
        let path = String::from_utf8_lossy(&path.text()?).into_owned();
        let mut bytes = std::fs::read(&path)
            .map_err(|error| Fault::new(Code::FileNotFound, format!("{path}: {error}")))?;
        bytes.push(0);
        let image = In::at_address(bytes.as_ptr() as usize);
        load(context, out, image, &Jit::read(0, In::at_address(0), Out::at_address(0))?)
    })
}

/// Waits for all work of the context, because kernels of the module may be part of it.
#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: usize) -> u32 {
    with_context(|context| {
        capture::forbid(context)?;
        let driver = Driver::get()?;
        let module = driver.modules.get(module)?;
        let owner = driver.contexts.get(module.context)?;
        owner.synchronize()?;
        driver.modules.remove(module.handle)?;
        driver.functions.retain(|function| !Arc::ptr_eq(&function.module, &module));
        module.loaded.unload(&owner.heap);
        Ok(())
    })
}

fn find(handle: usize) -> Call<Arc<Module>> {
    Driver::get()?.modules.get(handle)
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(out: Out<usize>, module: usize, name: In<u8>) -> u32 {
    with_context(|_| {
        let (module, name) = (find(module)?, name.text()?);
        let is_this = |function: &&Arc<Function>| {
            Arc::ptr_eq(&function.module, &module) && function.kernel().name.as_bytes() == name
        };
        let functions = Driver::get()?.functions.all();
        let unknown = || {
            let name = String::from_utf8_lossy(&name);
            Fault::new(Code::NotFound, format!("the module has no kernel `{name}`"))
        };
        out.set(functions.iter().find(is_this).ok_or_else(unknown)?.handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunctionCount(out: Out<u32>, module: usize) -> u32 {
    with_context(|_| out.set(find(module)?.loaded.program.kernels.len() as u32))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetGlobal_v2(
    address: Out<u64>,
    byte_len: Out<usize>,
    module: usize,
    name: In<u8>,
) -> u32 {
    with_context(|_| {
        let (module, name) = (find(module)?, name.text()?);
        let globals = &module.loaded.program.globals;
        let unknown = || {
            let name = String::from_utf8_lossy(&name);
            Fault::new(Code::NotFound, format!("the module has no variable `{name}`"))
        };
        let at = globals.iter().position(|(known, _)| known.as_bytes() == name).ok_or_else(unknown)?;
        address.set_if_asked(module.loaded.addresses[at]);
        byte_len.set_if_asked(globals[at].1 as usize);
        Ok(())
    })
}

/// Everything is compiled when a module is loaded.
#[unsafe(no_mangle)]
extern "C" fn cuModuleGetLoadingMode(out: Out<u32>) -> u32 {
    with_context(|_| out.set(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_what_was_linked_or_an_error() {
        let options = Options { optimization: 2, registers_max: 0 };
        let image = Image { source: ".version 8.0".into(), options: options.clone() };
        let bytes = image.encode(90);
        let read =
            |bytes: &[u8], sm| Image::read(In::at_address(bytes.as_ptr() as usize), sm, options.clone());
        assert_eq!(read(&bytes, 90), Ok(image));
        assert_eq!(read(&bytes, 80).expect_err("another device").code, Code::NoBinaryForGpu);
        for at in [MAGIC.len() + 12, HEADER_BYTES, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(read(&damaged, 90).expect_err("damaged").code, Code::InvalidImage, "byte {at}");
        }
        assert_eq!(read(b"\x7fELF\0", 90).expect_err("machine code").code, Code::NoBinaryForGpu);
        assert_eq!(read(b"\x93v\0", 90).expect_err("neither").code, Code::InvalidImage);
        assert_eq!(read(b"\0", 90).map(|image| image.source), Ok(String::new()));
    }
}
