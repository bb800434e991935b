//! Programs written out as text, each buffer declared together with what it starts with.

use super::rows::{column, init, program};
use crate::batch::{Batch, Content, Step};
use std::fmt::Write;
use vyre_foundation::ir::DataType;

/// A program and one launch of it. Bindings are given in the order of declaration.
#[derive(Clone, Debug)]
pub(super) struct Script {
    workgroup: [u32; 3],
    subgroup: Option<u32>,
    declarations: String,
    contents: Vec<Content>,
    /// Elements of all outputs.
    cases: u32,
}

impl Script {
    pub(super) fn new(workgroup: [u32; 3]) -> Script {
        Script { workgroup, subgroup: None, declarations: String::new(), contents: Vec::new(), cases: 0 }
    }

    /// The same with a logical subgroup width.
    pub(super) fn subgroup(self, width: u32) -> Script {
        Script { subgroup: Some(width), ..self }
    }

    fn bound(&mut self, kind: &str, name: &str, ty: DataType, len: Option<usize>, content: Content) {
        let binding = self.contents.len();
        let len = len.map_or(String::new(), |len| len.to_string());
        let (kind, output) = kind.split_once(' ').unwrap_or((kind, ""));
        let _ =
            writeln!(self.declarations, "  buffer @{name} : {kind} {ty}[{len}] binding {binding} {output}");
        if !output.is_empty() {
            self.cases += (content.len() / ty.bytes()) as u32;
        }
        self.contents.push(content);
    }

    /// A read buffer.
    pub(super) fn read(mut self, name: &str, ty: DataType, values: &[u64]) -> Script {
        self.bound("read", name, ty, None, bytes(ty, values));
        self
    }

    /// A uniform buffer.
    pub(super) fn uniform(mut self, name: &str, ty: DataType, values: &[u64]) -> Script {
        self.bound("uniform", name, ty, Some(values.len()), bytes(ty, values));
        self
    }

    /// A buffer that lanes read and write and that does not return.
    pub(super) fn scratch(mut self, name: &str, ty: DataType, values: &[u64]) -> Script {
        self.bound("read_write", name, ty, None, bytes(ty, values));
        self
    }

    /// An output that starts with those values.
    pub(super) fn filled(mut self, name: &str, ty: DataType, values: &[u64]) -> Script {
        self.bound("read_write output", name, ty, None, bytes(ty, values));
        self
    }

    /// An output that starts at zero.
    pub(super) fn output(mut self, name: &str, ty: DataType, count: usize) -> Script {
        self.bound("read_write output", name, ty, None, Content::Zeros(count * ty.bytes()));
        self
    }

    /// Workgroup memory, a table or a function, as text.
    pub(super) fn declare(mut self, text: &str) -> Script {
        let _ = writeln!(self.declarations, "  {text}");
        self
    }

    /// The batch of one launch with these lines. `LANES` in them is the number of lanes of a workgroup.
    pub(super) fn batch(self, name: String, grid: [u32; 3], lines: &str) -> Batch {
        let [x, y, z] = self.workgroup;
        let subgroup = self.subgroup.map_or(String::new(), |width| format!(" subgroup({width})"));
        let lanes = x * y * z;
        let text = format!(
            "program @script workgroup({x}, {y}, {z}){subgroup} {{\n{}{}\n}}\n",
            self.declarations,
            lines.replace("LANES", &lanes.to_string())
        );
        let step = Step { grid, contents: self.contents, init: init(lanes), cases: self.cases };
        Batch::new(name, program(&text), step)
    }
}

fn bytes(ty: DataType, values: &[u64]) -> Content {
    Content::Bytes(column(ty, values.iter().copied()))
}
