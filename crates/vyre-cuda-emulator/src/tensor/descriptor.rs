//! Matrix descriptors: where `wgmma` finds a factor of bytes in shared memory.
//!
//! A factor consists of core matrices, eight rows (of a) or columns (of b) with 16 bytes along the depth. Without swizzle a
//! core matrix is contiguous, the leading offset leads to the next one along the depth, and the stride offset to the next
//! eight rows. With a swizzle of 32, 64 or 128 bytes, rows are that far apart and hold the core matrices along the depth
//! next to each other; bits of the address that number the row are then added, without carry, to those that number the 16
//! bytes. The leading offset has no meaning there.
//!
//! Not here: descriptors with a base offset, whose pattern begins elsewhere than hardware's own; and factors whose rows are
//! contiguous across the depth, which only 16-bit types may have.

/// The bytes of a row that one instruction reads: its depth.
const DEPTH_BYTES: u32 = 32;

/// A descriptor's fields, in bytes.
pub(super) struct Descriptor {
    bits: u64,
    start: u32,
    leading: u32,
    stride: u32,
    /// The distance of rows: 16 without swizzle.
    row: u32,
}

impl Descriptor {
    /// Takes a descriptor apart.
    pub(super) fn of(bits: u64) -> Result<Descriptor, String> {
        let field = |from: u32| ((bits >> from) as u32 & 0x3fff) << 4;
        let reserved = bits & (0b11 << 14 | 0b11 << 30 | 0b111 << 46 | 0x3ff << 52);
        if reserved != 0 {
            return Err(format!("matrix descriptor {bits:#018x}: the reserved bits {reserved:#x} are set"));
        }
        if bits >> 49 & 7 != 0 {
            return Err(format!("matrix descriptor {bits:#018x}: base offsets are not emulated"));
        }
        let row = [16, 128, 64, 32][(bits >> 62) as usize];
        Ok(Descriptor { bits, start: field(0), leading: field(16), stride: field(32), row })
    }

    /// The addresses of the pieces of 16 bytes, row by row, two of each.
    pub(super) fn pieces(&self, rows: u32) -> Result<Vec<u32>, String> {
        let mut pieces = Vec::with_capacity(2 * rows as usize);
        for row in 0..rows {
            let first = self.start + row / 8 * self.stride + row % 8 * self.row;
            self.check_row(row, first)?;
            let next = first + if self.row == 16 { self.leading } else { 16 };
            pieces.extend([self.swizzled(first), self.swizzled(next)]);
        }
        Ok(pieces)
    }

    /// Refuses a row of a swizzled factor that would continue in the next one.
    fn check_row(&self, row: u32, first: u32) -> Result<(), String> {
        let inside = first % self.row;
        if self.row > 16 && inside + DEPTH_BYTES > self.row {
            return Err(format!(
                "matrix descriptor {:#018x}: the {DEPTH_BYTES} bytes of row {row} begin at byte {inside} of the swizzle's {}",
                self.bits, self.row
            ));
        }
        Ok(())
    }

    fn swizzled(&self, address: u32) -> u32 {
        address ^ ((address >> 3) & (self.row - 16))
    }
}
