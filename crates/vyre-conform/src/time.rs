//! Times as certificates have them: in UTC, to the second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A time in UTC, to the second: `2025-01-31T12:00:00Z`.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date that lies so many days after 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        if days < length {
            return (year, month, days + 1);
        }
        days -= length;
    }
    unreachable!("a year's months have all its days")
}

/// Whether a text has the form that [`utc`] gives.
pub(crate) fn is_utc(text: &str) -> bool {
    let pattern = b"dddd-dd-ddTdd:dd:ddZ";
    text.len() == pattern.len()
        && text.bytes().zip(pattern).all(|(byte, want)| match want {
            b'd' => byte.is_ascii_digit(),
            other => byte == *other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_calendar_times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
            assert!(is_utc(text));
        }
        assert!(!is_utc("2000-02-29 00:00:00Z"));
    }
}
