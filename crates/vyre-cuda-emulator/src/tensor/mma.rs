//! `mma.sync` on integers: a warp multiplies two matrices of bytes or half bytes and adds to one of 32-bit integers.
//!
//! In all shapes groups of four lanes hold a row of a and c, or a column of b. A register of a or b holds 32 bits of it
//! that are next to each other along the depth; further registers of a lane are eight rows below (a) and then, or at
//! once (b), as much further along the depth as the four lanes' registers reach.
//!
//! The sum of an element is exact, and then wraps or, with `.satfinite`, is clamped. The ISA does not say whether a clamped
//! sum may overflow on its way to a result in range; here it may.

use super::modifiers::{Modifiers, dimensions, float_product, is_float, is_shape, needs};
use crate::alu::{Row, Target};

/// The depth of the deepest shape.
const DEPTH_MAX: usize = 64;

/// The type of the elements of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    S8,
    U8,
    S4,
    U4,
}

impl Element {
    pub(super) fn of(word: &str) -> Option<Element> {
        Some(match word {
            "s8" => Element::S8,
            "u8" => Element::U8,
            "s4" => Element::S4,
            "u4" => Element::U4,
            _ => return None,
        })
    }

    /// Its bits.
    pub(super) fn bits(self) -> usize {
        match self {
            Element::S8 | Element::U8 => 8,
            Element::S4 | Element::U4 => 4,
        }
    }

    /// The value of the element with that index in a register.
    pub(super) fn get(self, register: u32, index: usize) -> i16 {
        let bits = register >> (index * self.bits());
        match self {
            Element::S8 => i16::from(bits as i8),
            Element::U8 => i16::from(bits as u8),
            Element::S4 => i16::from((bits << 4) as i8 >> 4),
            Element::U4 => (bits & 15) as i16,
        }
    }
}

/// The forms: rows, columns, depth, bits of an element, and the `.version` and `sm_` that they need. ISA: "Matrix Shape".
const FORMS: [([usize; 3], usize, u32, u32); 6] = [
    ([8, 8, 16], 8, 65, 75),
    ([16, 8, 16], 8, 70, 80),
    ([16, 8, 32], 8, 70, 80),
    ([8, 8, 32], 4, 65, 75),
    ([16, 8, 32], 4, 70, 80),
    ([16, 8, 64], 4, 70, 80),
];

/// `mma.sync.aligned` with integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mma {
    rows: usize,
    depth: usize,
    a: Element,
    b: Element,
    saturates: bool,
}

/// A lane's group of four, and its place among them.
fn group_and_place(lane: usize) -> (usize, usize) {
    (lane / 4, lane % 4)
}

impl Mma {
    /// Decides whether the form is legal.
    pub fn of(modifiers: &[&str], target: Target) -> Result<Mma, String> {
        let mut words = Modifiers::new("mma", modifiers);
        words.require_sync_aligned()?;
        if words.any(is_float) {
            return Err(float_product("mma"));
        }
        let saturates = words.take("satfinite");
        Mma::check_layouts(&words.take_all(|word| matches!(word, "row" | "col")))?;
        let shape = words.take_where(is_shape).ok_or("Shape modifier required for instruction 'mma'")?;
        let types = words.take_all(|word| matches!(word, "s32" | "s8" | "u8" | "s4" | "u4"));
        words.finish()?;
        let [d, a, b, c] = types[..] else { return Err(Mma::wrong_types()) };
        let (Some(a), Some(b)) = (Element::of(a), Element::of(b)) else { return Err(Mma::wrong_types()) };
        if a.bits() != b.bits() || [d, c] != ["s32"; 2] {
            return Err(Mma::wrong_types());
        }
        let shapes = FORMS.iter().filter(|form| dimensions(shape) == Some(form.0));
        let mut of_bits = shapes.clone().filter(|form| form.1 == a.bits());
        let Some(([rows, _, depth], _, version, sm)) = of_bits.next() else {
            return Err(match shapes.count() {
                0 => format!("Illegal matrix shape '.{shape}' for instruction 'mma'"),
                _ => format!("Incorrect instruction type specified for mma with shape '.{shape}'"),
            });
        };
        needs(&format!(".{shape}"), target, *version, *sm)?;
        Ok(Mma { rows: *rows, depth: *depth, a, b, saturates })
    }

    fn wrong_types() -> String {
        "Unexpected instruction types specified for 'mma'".to_owned()
    }

    fn check_layouts(layouts: &[&str]) -> Result<(), String> {
        match layouts {
            ["row", "col"] => Ok(()),
            ["col", _] => Err("Illegal alayout '.col' for instruction 'mma'".to_owned()),
            ["row", _] => Err("Illegal blayout '.row' for instruction 'mma'".to_owned()),
            _ => Err("'.alayout.blayout' modifier required for instruction 'mma'".to_owned()),
        }
    }

    /// How many registers of a lane hold a.
    pub fn a_registers(&self) -> usize {
        self.rows * self.depth * self.a.bits() / (32 * 32)
    }

    /// How many registers of a lane hold b.
    pub fn b_registers(&self) -> usize {
        8 * self.depth * self.b.bits() / (32 * 32)
    }

    /// How many registers of a lane hold c, and how many hold the result.
    pub fn c_registers(&self) -> usize {
        self.rows * 8 / 32
    }

    /// The result's registers: the product of a and b, plus c.
    pub fn run(&self, a: &[Row], b: &[Row], c: &[Row]) -> Vec<Row> {
        // Eight rows of a are one register's, the next eight the next one's.
        let a = self.lines(self.a, a, self.rows / 8);
        let b = self.lines(self.b, b, 1);
        let element = |register: usize, lane: usize| {
            let (group, place) = group_and_place(lane);
            let (row, column) = (group + 8 * (register / 2), 2 * place + register % 2);
            let sum = dot(&a[row], &b[column]);
            u64::from(accumulate(c[register][lane] as i32, sum, self.saturates) as u32)
        };
        (0..self.c_registers()).map(|register| std::array::from_fn(|lane| element(register, lane))).collect()
    }

    /// A factor's lines along the depth, from registers of which `eights` have lines below each other.
    fn lines(&self, element: Element, registers: &[Row], eights: usize) -> Vec<[i16; DEPTH_MAX]> {
        let each = 32 / element.bits();
        let mut lines = vec![[0; DEPTH_MAX]; 8 * eights];
        for (register, row) in registers.iter().enumerate() {
            for (lane, value) in row.iter().enumerate() {
                let (group, place) = group_and_place(lane);
                let line = &mut lines[group + 8 * (register % eights)];
                let first = (register / eights * 4 + place) * each;
                for (index, to) in line[first..first + each].iter_mut().enumerate() {
                    *to = element.get(*value as u32, index);
                }
            }
        }
        lines
    }
}

/// The sum of products. It fits, as there are few of them and they are of bytes.
pub(super) fn dot<const DEPTH: usize>(a: &[i16; DEPTH], b: &[i16; DEPTH]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// What an accumulator becomes.
pub(super) fn accumulate(old: i32, sum: i32, saturates: bool) -> i32 {
    if saturates { old.saturating_add(sum) } else { old.wrapping_add(sum) }
}
