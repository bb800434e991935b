//! Hard cases: f32 arguments whose result in f64 lies on the wrong side of a rounding boundary, found by trying all 2^32.
//!
//! A pair is the bits of the argument, positive for a function that is even or odd, and of the correctly rounded result.
//! `vyre-math hard` writes this list, with `scripts/math/judge.py` for functions without an oracle.

/// The hard cases of every function that has some.
pub(super) const HARD: &[(&str, &[[u32; 2]])] = &[
    ("exp2", &[[0x3b429d37, 0x3f804385], [0xbcf3a937, 0x3f7ac6b1]]),
    (
        "log",
        &[
            [0x41178feb, 0x400fe5e7],
            [0x4c5d65a5, 0x418f034b],
            [0x65d890d3, 0x4254d1f9],
            [0x6f31a8ec, 0x42845a89],
        ],
    ),
    (
        "log1p",
        &[
            [0x35400003, 0x353fffff],
            [0x3710001b, 0x370ffff3],
            [0x3efd81ad, 0x3ecdeee1],
            [0x41078feb, 0x400fe5e7],
            [0x65d890d3, 0x4254d1f9],
            [0x6f31a8ec, 0x42845a89],
            [0xb53ffffd, 0xb5400001],
            [0xb70fffe5, 0xb710000d],
            [0xbb0ec8c4, 0xbb0ef0a5],
        ],
    ),
    (
        "sin",
        &[
            [0x46199998, 0xbeb1fa5d],
            [0x55cafb2a, 0xbf7e7a17],
            [0xc6199998, 0x3eb1fa5d],
            [0xd5cafb2a, 0x3f7e7a17],
        ],
    ),
    ("cos", &[[0x5f18b878, 0x3f7f14bb], [0x6115cb11, 0x3f78142f], [0x7908cd73, 0x3f798bb5]]),
    ("acos", &[[0x328885a3, 0x3fc90fdb], [0x39826222, 0x3fc907b5]]),
    ("atan", &[[0x3d8d6b23, 0x3d8d31c3]]),
    ("sinh", &[[0x3a1285ff, 0x3a1285ff]]),
    ("asinh", &[[0x5e68984e, 0x422e4a21], [0x7967ec37, 0x42a1ffb7]]),
    ("acosh", &[[0x655890d3, 0x4254d1f9], [0x6eb1a8ec, 0x42845a89]]),
    ("erf", &[[0x3940ead6, 0x3959af14]]),
    ("erfc", &[[0xb76c9f62, 0x3f800085]]),
    ("sigmoid", &[[0xba928601, 0x3effdb5f]]),
    ("gelu", &[[0x37b0a46f, 0x3730a531]]),
    ("softplus", &[[0x39ea41d0, 0x3f3180bd]]),
];
