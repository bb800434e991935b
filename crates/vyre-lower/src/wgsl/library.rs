//! The functions that shaders may need, kept as WGSL text and copied where a program uses them.
//!
//! A paragraph of a library file is one function with its comment. What a function itself uses is found in its text.

/// One function: its name (for functions of a space, without the space's) and its text.
pub(super) struct Helper {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

const FILES: [&str; 3] =
    [include_str!("integers.wgsl"), include_str!("lanes.wgsl"), include_str!("floats.wgsl")];

/// Ops on integers, steps of lanes, and the device's own floats.
pub(super) fn helpers() -> Vec<Helper> {
    FILES.iter().flat_map(|file| split(file, "")).collect()
}

/// Accesses to a variable of words, whose name replaces `SPACE` in these.
pub(super) fn accesses() -> Vec<Helper> {
    split(include_str!("memory.wgsl"), "SPACE_")
}

fn split(source: &'static str, prefix: &str) -> Vec<Helper> {
    let paragraphs = source.split("\n\n").map(str::trim_end);
    paragraphs
        .filter_map(|text| {
            let head = text.lines().find_map(|line| line.strip_prefix("fn "))?;
            let name = head.split_once('(')?.0.strip_prefix(prefix)?;
            Some(Helper { name, text })
        })
        .collect()
}

/// The identifiers in a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_files_is_found_once() {
        let mut names: Vec<&str> = helpers().iter().map(|helper| helper.name).collect();
        let count = FILES.iter().map(|file| file.matches("\nfn ").count()).sum::<usize>();
        assert_eq!(names.len(), count);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(accesses().len(), include_str!("memory.wgsl").matches("\nfn ").count());
    }
}
