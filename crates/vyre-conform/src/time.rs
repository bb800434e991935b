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

/// The date that many days after 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= months(year).iter().sum() {
        days -= months(year).iter().sum::<u64>();
        year += 1;
    }
    for (month, length) in (1..).zip(months(year)) {
        if days < length {
            return (year, month, days + 1);
        }
        days -= length;
    }
    unreachable!("a year's months have all its days")
}

/// The days of a year's months.
fn months(year: u64) -> [u64; 12] {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// Whether a text is a time as [`utc`] gives it.
pub(crate) fn is_utc(text: &str) -> bool {
    let pattern = b"dddd-dd-ddTdd:dd:ddZ";
    let formed = text.len() == pattern.len()
        && text.bytes().zip(pattern).all(|(byte, want)| match want {
            b'd' => byte.is_ascii_digit(),
            other => byte == *other,
        });
    if !formed {
        return false;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u64>().unwrap_or(u64::MAX);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let length = (1..).zip(months(year)).find(|(at, _)| *at == month).map_or(0, |(_, length)| length);
    year >= 1970
        && (1..=length).contains(&day)
        && number(11, 13) < 24
        && number(14, 16) < 60
        && number(17, 19) < 60
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
        for text in [
            "2000-02-29 00:00:00Z",
            "1969-12-31T00:00:00Z",
            "2025-00-01T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-01-00T00:00:00Z",
            "2025-04-31T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2025-01-01T24:00:00Z",
            "2025-01-01T00:60:00Z",
            "2025-01-01T00:00:60Z",
        ] {
            assert!(!is_utc(text), "{text}");
        }
    }
}
