//! The rules of lines that touch buffers: element types, which memory may be written, tiles, collectives, `indirect`.

use super::body::BodyCheck;
use super::line::label;
use crate::ir::{BufferId, BufferKind, DataType, Node, Operand, ProgramParts, ReduceOp, Tile, walk};
use crate::limits;

impl BodyCheck<'_> {
    pub(super) fn load(&mut self, node: &Node, ty: DataType, buffer: BufferId, index: Operand) {
        self.expect(node, "the index", index, DataType::U32);
        let bytes = ty == DataType::U32 && self.buffer(buffer).ty == DataType::U8;
        if self.suffix(node, node.op().info(), ty) && !bytes {
            self.element(node, buffer, ty);
        }
    }

    pub(super) fn store(
        &mut self,
        node: &Node,
        ty: DataType,
        buffer: BufferId,
        index: Operand,
        value: Operand,
    ) {
        self.expect(node, "the index", index, DataType::U32);
        self.writable(node, buffer);
        if self.suffix(node, node.op().info(), ty) && self.element(node, buffer, ty) {
            self.expect(node, "the value", value, ty.computes_as());
        }
    }

    pub(super) fn atomic(&mut self, node: &Node, ty: DataType, buffer: BufferId) {
        self.writable(node, buffer);
        // The table counts the index as the first operand.
        let mut all = Vec::new();
        node.for_each_operand(|operand| all.push(operand));
        if self.operands(node, node.op().info(), ty, &all) {
            self.element(node, buffer, ty);
        }
    }

    /// Reports an access whose type is not the buffer's element type. False if it reported, or cannot judge.
    pub(super) fn element(&mut self, node: &Node, buffer: BufferId, ty: DataType) -> bool {
        let declared = self.buffer(buffer).ty;
        if !declared.stores() {
            return false;
        }
        if declared == ty {
            return true;
        }
        let (name, label, op) = (self.name(buffer), label(node), node.op());
        let message = format!("`{label}` on {name}, whose elements are {declared}");
        let exists = op.info().types.contains(declared);
        let fix = if matches!(node, Node::Mma { .. }) {
            format!("name a workgroup buffer of {ty} elements instead of {name}")
        } else if !exists {
            format!("declare {name} as {ty}")
        } else if matches!(node, Node::Store { .. }) {
            let value = declared.computes_as();
            format!("write `{op}.{declared}` with a value of type {value}, or declare {name} as {ty}")
        } else {
            format!("write `{op}.{declared}`, or declare {name} as {ty}")
        };
        self.report("V014", message, fix);
        false
    }

    fn writable(&mut self, node: &Node, buffer: BufferId) {
        let declared = self.buffer(buffer);
        let what = match declared.kind {
            BufferKind::ReadWrite { .. } | BufferKind::Workgroup => return,
            BufferKind::Uniform { .. } => "a uniform buffer",
            BufferKind::Read { .. } => "a read-only buffer",
            BufferKind::Table { .. } => "a constant table",
        };
        let name = self.name(buffer);
        let fix = if declared.binding().is_some() {
            format!("declare {name} as `read_write`")
        } else {
            format!("write to a buffer declared as `read_write` or `workgroup` instead of {name}")
        };
        self.report("V015", format!("`{}` writes {name}, {what}", label(node)), fix);
    }

    pub(super) fn in_workgroup(&mut self, node: &Node, buffer: BufferId) {
        if matches!(self.buffer(buffer).kind, BufferKind::Workgroup) {
            return;
        }
        let name = self.name(buffer);
        let message = format!("`{}` works on workgroup memory, and {name} is none", label(node));
        let fix = if let Node::UniformLoad { ty, .. } = node {
            format!("write `load.{ty}`")
        } else {
            format!("declare a `workgroup` buffer, copy the tile of {name} into it, and name it here")
        };
        self.report("V019", message, fix);
    }

    pub(super) fn extents(&mut self, extents: [u32; 3]) {
        let max = limits::MMA_EXTENT_MAX;
        for (extent, name) in extents.into_iter().zip(["m", "n", "k"]) {
            if extent == 0 || extent > max {
                let message = format!("`mma` with {name} = {extent}, which is not from 1 to {max}");
                let fix = match extent {
                    0 => format!("write 1 or more for {name}"),
                    _ => format!("write {max} for {name}, and cover larger products with several tiles"),
                };
                self.report("V020", message, fix);
            }
        }
    }

    pub(super) fn tile(&mut self, node: &Node, tile: &Tile, ty: DataType) {
        self.expect(node, "a tile's offset", tile.offset, DataType::U32);
        self.element(node, tile.buffer, ty);
        self.in_workgroup(node, tile.buffer);
    }

    pub(super) fn collective(
        &mut self,
        node: &Node,
        ty: DataType,
        dst: BufferId,
        src: BufferId,
        fold: Option<ReduceOp>,
    ) {
        self.together(node);
        let takes = self.suffix(node, node.op().info(), ty);
        if let Some(fold) = fold.filter(|fold| takes && !fold.op().info().types.contains(ty)) {
            self.report(
                "V011",
                format!("`{}` does not fold {ty}", fold.name()),
                "fold with `add`, `mul`, `min` or `max`, or use an integer type",
            );
        }
        if takes {
            self.element(node, dst, ty);
            self.element(node, src, ty);
        }
        let label = label(node);
        if !matches!(self.buffer(dst).kind, BufferKind::ReadWrite { .. }) {
            let name = self.name(dst);
            let message = format!("`{label}` writes {name}, which is not a `read_write` buffer");
            self.report("V029", message, format!("declare {name} as `read_write` with a binding"));
        }
        if self.buffer(src).binding().is_none() {
            let name = self.name(src);
            let message = format!("`{label}` reads {name}, which no caller binds");
            self.report("V029", message, format!("declare {name} as `read` or `read_write` with a binding"));
        } else if src == dst {
            let name = self.name(src);
            let message = format!("`{label}` reads and writes {name} at once");
            self.report("V029", message, "declare a second buffer and write the result there");
        }
    }

    pub(super) fn indirect(&mut self, buffer: BufferId, offset: u32) {
        if self.function.is_some() || self.site != 0 {
            let first = self.parts.body.block.first();
            let fix = match matches!(first, Some(Node::IndirectDispatch { .. })) {
                true => "delete this line: the grid comes from the first one",
                false => "move this line to the top of the main body",
            };
            let message =
                "`indirect` is not the program's first line, and the grid is known before any line runs";
            self.report("V039", message, fix);
        }
        let declared = self.buffer(buffer);
        let name = self.name(buffer);
        let wrong = match declared.kind {
            BufferKind::Read { .. } | BufferKind::Uniform { .. } => None,
            BufferKind::ReadWrite { .. } if !is_written(self.parts, buffer) => None,
            BufferKind::ReadWrite { .. } => Some("a line of the program writes"),
            BufferKind::Workgroup | BufferKind::Table { .. } => Some("no caller binds"),
        };
        if let Some(wrong) = wrong {
            let message = format!("`indirect` reads {name}, which {wrong}");
            self.report("V040", message, format!("declare a `read` buffer beside {name} for the counts"));
        }
        if declared.ty != DataType::U32 && declared.ty.stores() {
            let message = format!("`indirect` reads {name}, whose elements are {} and not u32", declared.ty);
            self.report("V040", message, format!("declare {name} as u32"));
        }
        let end = u64::from(offset) + 3;
        if let Some(len) = declared.len.filter(|len| u64::from(*len) < end && *len > 0) {
            let message =
                format!("`indirect` reads elements {offset} to {} of {name}, which has {len}", end - 1);
            let fix = match len.checked_sub(3) {
                Some(last) => format!("write an offset of at most {last}"),
                None => format!("declare {name} as u32[3] or longer"),
            };
            self.report("V040", message, fix);
        }
    }
}

/// Whether any line of the program writes a buffer.
fn is_written(parts: &ProgramParts, buffer: BufferId) -> bool {
    let mut written = false;
    for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
        walk(&body.block, |_, _, node| written |= node.written() == Some(buffer));
    }
    written
}
