//! Values that functions treat specially, and their neighbours.

/// f32 values whose pairs are all worth trying: zeros, limits, infinities, NaN, small whole numbers and halves.
pub fn values() -> Vec<f32> {
    let plain = [
        0.0,
        1e-45,
        f32::MIN_POSITIVE,
        f32::EPSILON,
        0.25,
        1.0 / 3.0,
        0.5,
        0.7,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        4.0,
        5.0,
        7.0,
        9.0,
        10.0,
        15.0,
        16.0,
        27.0,
        100.0,
        127.0,
        149.0,
        150.0,
        1e5,
        8_388_607.5,
        16_777_215.0,
        16_777_216.0,
        1e20,
        f32::MAX,
        f32::INFINITY,
    ];
    let near = |x: f32| [x, x.next_up(), x.next_down()];
    let positive: Vec<f32> = plain.into_iter().flat_map(near).filter(|x| *x >= 0.0).collect();
    positive.iter().flat_map(|x| [*x, -*x]).chain([f32::NAN]).collect()
}
