//! Vector code as text, for tests and listings.

use super::code::{Address, Elem, Float, Function, Indexed, Inst, Kind, Op, Reg, Term};
use std::fmt;

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "function lanes {} scratch {} {{", self.lanes, self.scratch_bytes)?;
        for (at, block) in self.blocks.iter().enumerate() {
            let params: Vec<String> =
                block.params.iter().map(|param| format!("{param}: {}", self.kind(*param))).collect();
            let cold = if block.cold { " cold" } else { "" };
            writeln!(f, "b{at}({}){cold}:", params.join(", "))?;
            for inst in &block.insts {
                writeln!(f, "  {}", self.show_inst(inst))?;
            }
            match &block.term {
                Term::Jump(to, args) => writeln!(f, "  jump b{}({})", to.0, list(args))?,
                Term::Branch { cond, then, otherwise } => {
                    writeln!(f, "  branch {cond}, b{}, b{}", then.0, otherwise.0)?;
                }
                Term::Return => writeln!(f, "  return")?,
            }
        }
        writeln!(f, "}}")
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::S32 => "s32",
            Kind::S64 => "s64",
            Kind::V32 => "v32",
            Kind::V64 => "v64",
            Kind::Mask => "mask",
        })
    }
}

fn list(regs: &[Reg]) -> String {
    regs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An enum's variant in lower case: the names of the ops.
fn name(op: impl fmt::Debug) -> String {
    format!("{op:?}").to_lowercase()
}

fn address(at: &Address) -> String {
    let index = at.index.map_or_else(String::new, |(index, scale)| format!(" + {index}*{scale}"));
    let disp = if at.disp == 0 { String::new() } else { format!(" + {}", at.disp) };
    format!("[{}{index}{disp}]", at.base)
}

fn indexed(at: &Indexed) -> String {
    let small = if at.small { " small" } else { "" };
    format!("[{} + {}*{}{small}]{}", at.base, at.index, at.scale, under(&at.mask))
}

fn under(mask: &Option<Reg>) -> String {
    mask.map_or_else(String::new, |mask| format!(" where {mask}"))
}

fn shared(shared: bool) -> &'static str {
    if shared { " shared" } else { "" }
}

impl Function {
    fn show_inst(&self, inst: &Inst) -> String {
        let text = self.show_op(&inst.op);
        match inst.result {
            Some(result) => format!("{result}: {} = {text}", self.kind(result)),
            None => text,
        }
    }

    fn show_op(&self, op: &Op) -> String {
        let elem = |elem: &Elem| name(elem);
        let float = |float: &Float| name(float);
        match op {
            Op::Const(bits) => format!("const {bits:#x}"),
            Op::LaneIndex => "lane_index".to_owned(),
            Op::Int(op, a, b) => format!("{} {a}, {b}", name(op)),
            Op::Shift(op, a, b) => format!("{} {a}, {b}", name(op)),
            Op::ShiftImm(op, a, n) => format!("{} {a}, {n}", name(op)),
            Op::Bit(op, a) => format!("{} {a}", name(op)),
            Op::IntCmp(cond, a, b) => format!("cmp.{} {a}, {b}", name(cond)),
            Op::Float(op, ty, a, b) => format!("{}.{} {a}, {b}", name(op), float(ty)),
            Op::FloatUn(op, ty, a) => format!("{}.{} {a}", name(op), float(ty)),
            Op::Fma(ty, a, b, c) => format!("fma.{} {a}, {b}, {c}", float(ty)),
            Op::FloatCmp(cond, ty, a, b) => format!("cmp.{}.{} {a}, {b}", name(cond), float(ty)),
            Op::Select(cond, a, b) => format!("select {cond}, {a}, {b}"),
            Op::Convert { from, to, value } => format!("convert.{}.{} {value}", name(from), name(to)),
            Op::HalfToFloat(a) => format!("half_to_float {a}"),
            Op::FloatToHalf(a) => format!("float_to_half {a}"),
            Op::Mask(op, a, b) => format!("mask_{} {a}, {b}", name(op)),
            Op::MaskNot(a) => format!("mask_not {a}"),
            Op::MaskFirst(n) => format!("mask_first {n}"),
            Op::MaskToBits(a) => format!("mask_to_bits {a}"),
            Op::BitsToMask(a) => format!("bits_to_mask {a}"),
            Op::Splat(a) => format!("splat {a}"),
            Op::Extract(a, lane) => format!("extract {a}, {lane}"),
            Op::Permute(a, index) => format!("permute {a}, {index}"),
            Op::LoadS(ty, at) => format!("load.{} {}", elem(ty), address(at)),
            Op::LoadSplat(ty, at) => format!("load_splat.{} {}", elem(ty), address(at)),
            Op::StoreS(ty, at, value) => format!("store.{} {}, {value}", elem(ty), address(at)),
            Op::LoadV(ty, at, mask) => format!("vload.{} {}{}", elem(ty), address(at), under(mask)),
            Op::StoreV(ty, at, value, mask) => {
                format!("vstore.{} {}, {value}{}", elem(ty), address(at), under(mask))
            }
            Op::StoreStream(ty, at, value) => format!("vstore_stream.{} {}, {value}", elem(ty), address(at)),
            Op::Gather(ty, at) => format!("gather.{} {}", elem(ty), indexed(at)),
            Op::Scatter(ty, at, value) => format!("scatter.{} {}, {value}", elem(ty), indexed(at)),
            Op::Rmw { op, elem: ty, at, value, shared: seen } => {
                format!("rmw_{}.{} {}, {value}{}", name(op), elem(ty), address(at), shared(*seen))
            }
            Op::CompareExchange { elem: ty, at, expected, value, shared: seen } => {
                let (at, seen) = (address(at), shared(*seen));
                format!("compare_exchange.{} {at}, {expected}, {value}{seen}", elem(ty))
            }
            Op::Poll(at) => format!("poll {}", address(at)),
        }
    }
}
