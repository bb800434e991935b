//! Warp matrix instructions against the fragment tables of the PTX ISA, CuTe's layouts, and plain triple loops.

use vyre_cuda_emulator::alu::{Row, Target};
use vyre_cuda_emulator::tensor::{Ldmatrix, Mma, Stmatrix, Wgmma};

const SM_90A: Target = Target { version: 84, sm: 90, specific: true };

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An element of that type: `s8`, `u8`, `s4` or `u4`.
    fn element(&mut self, ty: &str) -> i32 {
        let bits = self.next() as i32;
        match ty {
            "s8" => bits << 24 >> 24,
            "u8" => bits & 0xff,
            "s4" => bits << 28 >> 28,
            "u4" => bits & 0xf,
            other => panic!("{other} is no type of these tests"),
        }
    }

    /// An accumulator: any, or one at an end of the range.
    fn accumulator(&mut self) -> i32 {
        let bits = self.next();
        let near = (bits >> 32) as i32 & 0xfff;
        [bits as i32, i32::MAX - near, i32::MIN + near][(bits >> 60) as usize % 3]
    }
}

/// A matrix by rows.
type Matrix = Vec<Vec<i32>>;

fn matrix(rows: usize, columns: usize, mut value: impl FnMut() -> i32) -> Matrix {
    (0..rows).map(|_| (0..columns).map(|_| value()).collect()).collect()
}

/// a times b plus c, one element after the other.
fn product(a: &Matrix, b: &Matrix, c: &Matrix, saturates: bool) -> Matrix {
    let mut d = c.clone();
    for (row, line) in d.iter_mut().enumerate() {
        for (column, element) in line.iter_mut().enumerate() {
            let mut sum = i64::from(*element);
            for (depth, b_line) in b.iter().enumerate() {
                sum += i64::from(a[row][depth]) * i64::from(b_line[column]);
            }
            let clamped = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            *element = if saturates { clamped as i32 } else { sum as i32 };
        }
    }
    d
}

/// Row and column of a lane's element with that index. `g` is `groupID` and `t` is `threadID_in_group`.
type Table = fn(g: usize, t: usize, i: usize) -> (usize, usize);

/// The tables of a section "Matrix Fragments for mma", with the elements that a lane has.
struct Fragments {
    shape: &'static str,
    bits: usize,
    mnk: [usize; 3],
    a: (usize, Table),
    b: (usize, Table),
    c: (usize, Table),
}

const C_8: Table = |g, t, i| (g, t * 2 + i);
const C_16: Table = |g, t, i| (if i < 2 { g } else { g + 8 }, t * 2 + (i & 1));

const PUBLISHED: [Fragments; 6] = [
    Fragments {
        shape: "m8n8k16",
        bits: 8,
        mnk: [8, 8, 16],
        a: (4, |g, t, i| (g, t * 4 + i)),
        b: (4, |g, t, i| (t * 4 + i, g)),
        c: (2, C_8),
    },
    Fragments {
        shape: "m8n8k32",
        bits: 4,
        mnk: [8, 8, 32],
        a: (8, |g, t, i| (g, t * 8 + i)),
        b: (8, |g, t, i| (t * 8 + i, g)),
        c: (2, C_8),
    },
    Fragments {
        shape: "m16n8k16",
        bits: 8,
        mnk: [16, 8, 16],
        a: (8, |g, t, i| (if i < 4 { g } else { g + 8 }, t * 4 + (i & 3))),
        b: (4, |g, t, i| (t * 4 + i, g)),
        c: (4, C_16),
    },
    Fragments {
        shape: "m16n8k32",
        bits: 4,
        mnk: [16, 8, 32],
        a: (16, |g, t, i| (if i < 8 { g } else { g + 8 }, t * 8 + (i & 7))),
        b: (8, |g, t, i| (t * 8 + i, g)),
        c: (4, C_16),
    },
    Fragments {
        shape: "m16n8k32",
        bits: 8,
        mnk: [16, 8, 32],
        a: (16, |g, t, i| {
            let row = if i < 4 || (8..12).contains(&i) { g } else { g + 8 };
            (row, if i < 8 { t * 4 + (i & 3) } else { t * 4 + (i & 3) + 16 })
        }),
        b: (8, |g, t, i| (if i < 4 { t * 4 + (i & 3) } else { t * 4 + (i & 3) + 16 }, g)),
        c: (4, C_16),
    },
    Fragments {
        shape: "m16n8k64",
        bits: 4,
        mnk: [16, 8, 64],
        a: (32, |g, t, i| {
            let row = if i < 8 || (16..24).contains(&i) { g } else { g + 8 };
            (row, if i < 16 { t * 8 + (i & 7) } else { t * 8 + (i & 7) + 32 })
        }),
        b: (16, |g, t, i| (if i < 8 { t * 8 + (i & 7) } else { t * 8 + (i & 7) + 32 }, g)),
        c: (4, C_16),
    },
];

/// The registers of a warp, as a table distributes a matrix.
fn pack(matrix: &Matrix, (elements, table): (usize, Table), bits: usize) -> Vec<Row> {
    let mut registers = vec![[0; 32]; elements * bits / 32];
    for (lane, i) in (0..32).flat_map(|lane| (0..elements).map(move |i| (lane, i))) {
        let (row, column) = table(lane / 4, lane % 4, i);
        let value = u64::from(matrix[row][column] as u32) & ((1 << bits) - 1);
        registers[i * bits / 32][lane] |= value << (i * bits % 32);
    }
    registers
}

fn check_mma(fragments: &Fragments, [a_type, b_type]: [&str; 2], saturates: bool, random: &mut Random) {
    let mut modifiers = vec!["sync", "aligned", fragments.shape, "row", "col"];
    modifiers.extend(saturates.then_some("satfinite"));
    modifiers.extend(["s32", a_type, b_type, "s32"]);
    let mma = Mma::of(&modifiers, SM_90A).unwrap();
    let [m, n, k] = fragments.mnk;
    let a = matrix(m, k, || random.element(a_type));
    let b = matrix(k, n, || random.element(b_type));
    let c = matrix(m, n, || random.accumulator());
    let expected = pack(&product(&a, &b, &c, saturates), fragments.c, 32);
    let a = pack(&a, fragments.a, fragments.bits);
    let b = pack(&b, fragments.b, fragments.bits);
    let c = pack(&c, fragments.c, 32);
    assert_eq!([a.len(), b.len(), c.len()], [mma.a_registers(), mma.b_registers(), mma.c_registers()]);
    let got = mma.run(&a, &b, &c);
    assert_eq!(got.len(), expected.len());
    for (register, (got, expected)) in got.iter().zip(&expected).enumerate() {
        for lane in 0..32 {
            assert_eq!(got[lane], expected[lane], "{modifiers:?}: lane {lane}, register {register}");
        }
    }
}

#[test]
fn mma_multiplies_as_the_published_fragments_say() {
    let mut random = Random(1);
    for fragments in &PUBLISHED {
        let types = if fragments.bits == 8 { ["s8", "u8"] } else { ["s4", "u4"] };
        for a_type in types {
            for b_type in types {
                for saturates in [false, true] {
                    (0..8).for_each(|_| check_mma(fragments, [a_type, b_type], saturates, &mut random));
                }
            }
        }
    }
}

#[test]
fn a_sum_is_exact_before_it_is_clamped() {
    let run = |satfinite: &[&str], c: i32| {
        let modifiers =
            [&["sync", "aligned", "m8n8k16", "row", "col"], satfinite, &["s32", "s8", "u8", "s32"]];
        let mma = Mma::of(&modifiers.concat(), SM_90A).unwrap();
        // Each lane has 1, 1, -1 and 2 of a, so an element of the product is four times 3 times b's 255.
        let (a, b) = ([0x02ff_0101; 32], [0xffff_ffff; 32]);
        mma.run(&[a], &[b], &[[u64::from(c as u32); 32]; 2])[0][0] as u32 as i32
    };
    assert_eq!(run(&[], i32::MAX - 10), i32::MIN + 3060 - 11);
    assert_eq!(run(&["satfinite"], i32::MAX - 10), i32::MAX);
    assert_eq!(run(&["satfinite"], i32::MAX - 3060), i32::MAX);
    assert_eq!(run(&["satfinite"], i32::MAX - 3061), i32::MAX - 1);
    assert_eq!(run(&["satfinite"], i32::MIN), i32::MIN + 3060);
}

/// Rows whose 16-bit elements say which they are: matrix, row and column are digits.
fn numbered(matrices: usize) -> Vec<[u8; 16]> {
    let element = |row: usize, column: usize| (row / 8 * 100 + row % 8 * 10 + column) as u16;
    (0..8 * matrices)
        .map(|row| std::array::from_fn(|at| element(row, at / 2).to_le_bytes()[at % 2]))
        .collect()
}

/// The first matrix's elements in all lanes, as the figures of the ISA show them: row and column are digits.
const PLAIN: &str = "00,01 02,03 04,05 06,07 10,11 12,13 14,15 16,17 20,21 22,23 24,25 26,27 30,31 32,33 34,35 36,37 \
                     40,41 42,43 44,45 46,47 50,51 52,53 54,55 56,57 60,61 62,63 64,65 66,67 70,71 72,73 74,75 76,77";
const TRANSPOSED: &str = "00,10 20,30 40,50 60,70 01,11 21,31 41,51 61,71 02,12 22,32 42,52 62,72 03,13 23,33 43,53 63,73 \
                          04,14 24,34 44,54 64,74 05,15 25,35 45,55 65,75 06,16 26,36 46,56 66,76 07,17 27,37 47,57 67,77";

#[test]
fn ldmatrix_and_stmatrix_distribute_rows_as_published() {
    for (num, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for (trans, figure) in [(None, PLAIN), (Some("trans"), TRANSPOSED)] {
            let mut modifiers = vec!["sync", "aligned", "m8n8", num];
            modifiers.extend(trans);
            modifiers.extend(["shared", "b16"]);
            let load = Ldmatrix::of(&modifiers, SM_90A).unwrap();
            let store = Stmatrix::of(&modifiers, SM_90A).unwrap();
            assert_eq!(
                [load.registers(), load.rows(), load.addressed_lanes()],
                [count, 8 * count, 8 * count]
            );
            assert_eq!([store.registers(), store.rows()], [count, 8 * count]);
            let rows = numbered(count);
            let registers = load.spread(&rows);
            for (matrix, register) in registers.iter().enumerate() {
                for (lane, pair) in figure.split_whitespace().enumerate() {
                    let (first, second) = pair.split_once(',').unwrap();
                    let [first, second] =
                        [first, second].map(|digits| 100 * matrix as u64 + digits.parse::<u64>().unwrap());
                    assert_eq!(register[lane], first | second << 16, "{modifiers:?}: lane {lane}");
                }
            }
            assert_eq!(store.gather(&registers), rows);
        }
    }
}

#[test]
fn ldmatrix_needs_more_addresses_on_sm_75_and_takes_generic_ones() {
    let modifiers = ["sync", "aligned", "m8n8", "x1", "b16"];
    let load = Ldmatrix::of(&modifiers, Target { version: 65, sm: 75, specific: false }).unwrap();
    assert_eq!([load.rows(), load.addressed_lanes()], [8, 32]);
    assert!(load.is_generic() && Stmatrix::of(&modifiers, SM_90A).unwrap().is_generic());
    let shared = ["sync", "aligned", "m8n8", "x1", "shared::cta", "b16"];
    assert!(!Ldmatrix::of(&shared, SM_90A).unwrap().is_generic());
}

#[test]
fn ldmatrix_reads_what_mma_multiplies() {
    let mut random = Random(2);
    let load = |num| Ldmatrix::of(&["sync", "aligned", "m8n8", num, "shared", "b16"], SM_90A).unwrap();
    let mma =
        Mma::of(&["sync", "aligned", "m16n8k32", "row", "col", "s32", "s8", "s8", "s32"], SM_90A).unwrap();
    let a = matrix(16, 32, || random.element("s8"));
    let b = matrix(32, 8, || random.element("s8"));
    let c = matrix(16, 8, || 0);
    // a: both groups of eight rows of the first 16 bytes, then of the others. b: likewise, with eight columns.
    let a_rows: Vec<[u8; 16]> =
        (0..32).map(|row| std::array::from_fn(|at| a[row % 16][row / 16 * 16 + at] as u8)).collect();
    let b_rows: Vec<[u8; 16]> =
        (0..16).map(|row| std::array::from_fn(|at| b[row / 8 * 16 + at][row % 8] as u8)).collect();
    let got = mma.run(&load("x4").spread(&a_rows), &load("x2").spread(&b_rows), &[[0; 32]; 4]);
    assert_eq!(got, pack(&product(&a, &b, &c, false), (4, C_16), 32));
}

/// A mode of a CuTe layout: shape and stride of each part, the first part running fastest.
fn offset(mode: &[(usize, usize)], mut coordinate: usize) -> usize {
    let mut offset = 0;
    for (shape, stride) in mode {
        offset += coordinate % shape * stride;
        coordinate /= shape;
    }
    offset
}

/// CuTe's `Swizzle<bits, 4, 3>`.
fn swizzle(bits: usize, address: usize) -> usize {
    let selected = address & (((1 << bits) - 1) << 7);
    address ^ (selected >> 3)
}

/// A canonical layout of bytes, major along the depth: the swizzle's bits, and the descriptor's start and offsets.
#[derive(Clone, Copy, Debug)]
struct Canonical {
    bits: usize,
    start: usize,
    lbo: usize,
    sbo: usize,
}

impl Canonical {
    fn descriptor(&self) -> u64 {
        let mode = [0, 3, 2, 1][self.bits];
        (self.start >> 4 | self.lbo >> 4 << 16 | self.sbo >> 4 << 32 | mode << 62) as u64
    }

    /// `Swizzle<bits,4,3> o smem_ptr o ((8,m),(T,2)):((xT,SBO),(1,LBO or T))`, where T is 16 bytes and x is 1, 2, 4 or 8.
    fn address(&self, rows: usize, row: usize, depth: usize) -> usize {
        let along_rows = [(8, 16 << self.bits), (rows / 8, self.sbo)];
        let along_depth = [(16, 1), (2, if self.bits == 0 { self.lbo } else { 16 })];
        swizzle(self.bits, self.start + offset(&along_rows, row) + offset(&along_depth, depth))
    }
}

/// The layouts of CUTLASS, as of `make_gmma_desc`, and others that a descriptor can describe.
const LAYOUTS: [Canonical; 8] = [
    Canonical { bits: 0, start: 0x10, lbo: 128, sbo: 256 },
    Canonical { bits: 0, start: 0x4000, lbo: 4096, sbo: 128 },
    Canonical { bits: 1, start: 0x400, lbo: 16, sbo: 256 },
    Canonical { bits: 2, start: 0x800, lbo: 16, sbo: 512 },
    Canonical { bits: 2, start: 0x820, lbo: 16, sbo: 512 },
    Canonical { bits: 3, start: 0x1000, lbo: 16, sbo: 1024 },
    Canonical { bits: 3, start: 0x1060, lbo: 0, sbo: 1024 },
    Canonical { bits: 3, start: 0x1020, lbo: 16, sbo: 2048 },
];

const COLUMNS: [usize; 18] =
    [8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256];

#[test]
fn wgmma_takes_the_columns_of_the_table_and_no_others() {
    for columns in 0..=512 {
        let shape = format!("m64n{columns}k32");
        let taken = Wgmma::of(&["mma_async", "sync", "aligned", &shape, "s32", "s8", "s8"], SM_90A).is_ok();
        assert_eq!(taken, COLUMNS.contains(&columns), "{shape}");
    }
}

fn wgmma(columns: usize, [a_type, b_type]: [&str; 2], saturates: bool) -> Wgmma {
    let shape = format!("m64n{columns}k32");
    let mut modifiers = vec!["mma_async", "sync", "aligned", &shape, "s32", a_type, b_type];
    modifiers.extend(saturates.then_some("satfinite"));
    Wgmma::of(&modifiers, SM_90A).unwrap()
}

#[test]
fn descriptors_lead_to_the_canonical_layouts() {
    for columns in COLUMNS {
        let wgmma = wgmma(columns, ["s8"; 2], false);
        for layout in LAYOUTS {
            let a = wgmma.a_addresses(layout.descriptor()).unwrap();
            let b = wgmma.b_addresses(layout.descriptor()).unwrap();
            for (rows, got) in [(64, a), (columns, b)] {
                assert_eq!(got.len(), 2 * rows);
                for (row, depth) in (0..rows).flat_map(|row| (0..32).map(move |depth| (row, depth))) {
                    let address = got[2 * row + depth / 16] as usize + depth % 16;
                    assert_eq!(address, layout.address(rows, row, depth), "{layout:?}: {row}, {depth}");
                }
            }
        }
    }
}

#[test]
fn descriptors_lead_to_rows_with_exchanged_pieces() {
    // Rows of 32, 64 or 128 bytes, one after the other, whose piece `c` is stored at `c ^ ((c >> 3) & mask)`.
    let wgmma = wgmma(256, ["s8"; 2], false);
    for (row_bytes, mode) in [(32_usize, 3_u64), (64, 2), (128, 1)] {
        let (start, mask) = (8 * row_bytes, row_bytes / 16 - 1);
        for step in 0..row_bytes / 32 {
            let first = (start + 32 * step) as u64 >> 4;
            let descriptor = first | 1 << 16 | (row_bytes as u64 / 2) << 32 | mode << 62;
            let got = wgmma.b_addresses(descriptor).unwrap();
            for (at, address) in got.into_iter().enumerate() {
                let piece = (at / 2 * row_bytes + 32 * step) / 16 + at % 2;
                let exchanged = piece ^ ((piece >> 3) & mask);
                let expected = start + 16 * exchanged;
                assert_eq!(address as usize, expected, "{row_bytes} bytes, step {step}, piece {at}");
            }
        }
    }
}

#[test]
fn descriptors_that_mean_nothing_are_refused() {
    let wgmma = wgmma(8, ["s8"; 2], false);
    let refused = |descriptor: u64, message: &str| {
        let errors = [wgmma.a_addresses(descriptor), wgmma.b_addresses(descriptor)];
        errors.into_iter().for_each(|error| assert_eq!(error.unwrap_err(), message));
    };
    for bit in [14, 15, 30, 31, 46, 47, 48, 52, 61] {
        let bits = 1_u64 << bit;
        refused(bits, &format!("matrix descriptor {bits:#018x}: the reserved bits {bits:#x} are set"));
    }
    refused(1 << 49, "matrix descriptor 0x0002000000000000: base offsets are not emulated");
    for (descriptor, inside, of) in [
        (7 | 64 << 32 | 1 << 62, 112, 128),
        (3 | 32 << 32 | 2 << 62, 48, 64),
        (1 | 16 << 32 | 3 << 62, 16, 32),
    ] {
        let place = format!("the 32 bytes of row 0 begin at byte {inside} of the swizzle's {of}");
        refused(descriptor, &format!("matrix descriptor {descriptor:#018x}: {place}"));
    }
}

/// CuTe's layouts of registers: the element, with rows running fastest, for a thread of the 128 and a value of it.
/// `CLayout_64xN` is `((4,8,4),(2,2,N/8)):((128,1,16),(64,8,512))`.
fn accumulator_place(thread: usize, value: usize) -> (usize, usize) {
    let at = offset(&[(4, 128), (8, 1), (4, 16)], thread) + offset(&[(2, 64), (2, 8), (32, 512)], value);
    (at % 64, at / 64)
}

/// `ALayout_64x32` is `((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))`.
fn a_place(thread: usize, value: usize) -> (usize, usize) {
    let at = offset(&[(4, 256), (8, 1), (4, 16)], thread) + offset(&[(4, 64), (2, 8), (2, 1024)], value);
    (at % 64, at / 64)
}

/// The registers of four warps, with so many values each.
fn pack_group(registers: usize, each: usize, value: impl Fn(usize, usize) -> u64) -> [Vec<Row>; 4] {
    let register = |warp: usize, at: usize| -> Row {
        std::array::from_fn(|lane| {
            (0..each).map(|i| value(32 * warp + lane, each * at + i) << (32 / each * i)).sum()
        })
    };
    std::array::from_fn(|warp| (0..registers).map(|at| register(warp, at)).collect())
}

/// Shared memory with a factor in a layout; `value` is asked for a row and a place along the depth.
fn stored(layout: Canonical, rows: usize, value: impl Fn(usize, usize) -> i32) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 18];
    for row in 0..rows {
        (0..32).for_each(|depth| bytes[layout.address(rows, row, depth)] = value(row, depth) as u8);
    }
    bytes
}

fn pieces(memory: &[u8], addresses: &[u32]) -> Vec<[u8; 16]> {
    addresses.iter().map(|address| memory[*address as usize..][..16].try_into().unwrap()).collect()
}

fn check_wgmma(
    columns: usize,
    types: [&str; 2],
    saturates: bool,
    layouts: [Canonical; 2],
    random: &mut Random,
) {
    let wgmma = wgmma(columns, types, saturates);
    let a = matrix(64, 32, || random.element(types[0]));
    let b = matrix(32, columns, || random.element(types[1]));
    let c = matrix(64, columns, || random.accumulator());
    let zero = matrix(64, columns, || 0);

    let a_addresses = wgmma.a_addresses(layouts[0].descriptor()).unwrap();
    let b_addresses = wgmma.b_addresses(layouts[1].descriptor()).unwrap();
    let a_shared = pieces(&stored(layouts[0], 64, |row, depth| a[row][depth]), &a_addresses);
    let b_shared = pieces(&stored(layouts[1], columns, |column, depth| b[depth][column]), &b_addresses);
    let a_registers = pack_group(wgmma.a_registers(), 4, |thread, value| {
        let (row, depth) = a_place(thread, value);
        u64::from(a[row][depth] as u8)
    });
    assert_eq!(wgmma.a_pieces(a_registers.each_ref().map(Vec::as_slice)), a_shared);

    let accumulators = |matrix: &Matrix| {
        pack_group(wgmma.d_registers(), 1, |thread, value| {
            let (row, column) = accumulator_place(thread, value);
            u64::from(matrix[row][column] as u32)
        })
    };
    for (adds, before) in [(false, &zero), (true, &c)] {
        let mut d = accumulators(&c);
        wgmma.run(&a_shared, &b_shared, adds, d.each_mut().map(Vec::as_mut_slice));
        let expected = accumulators(&product(&a, &b, before, saturates));
        assert!(d == expected, "{columns} columns of {types:?}, {layouts:?}, adds: {adds}");
    }
}

#[test]
fn wgmma_multiplies_as_cute_lays_it_out() {
    let mut random = Random(3);
    for (at, columns) in COLUMNS.into_iter().enumerate() {
        for types in [["s8", "s8"], ["u8", "u8"], ["s8", "u8"], ["u8", "s8"]] {
            for saturates in [false, true] {
                let layouts = [LAYOUTS[at % LAYOUTS.len()], LAYOUTS[(3 * at + 1) % LAYOUTS.len()]];
                check_wgmma(columns, types, saturates, layouts, &mut random);
            }
        }
    }
}
