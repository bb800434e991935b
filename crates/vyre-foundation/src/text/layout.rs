//! The canonical layout, shared by printer and formatter: indentation, alignment and the wrapping of lists.

/// Columns that a line with a list may take before the list is wrapped.
const WIDTH: usize = 100;
/// Names up to this width are aligned; a longer one would push a whole run of lines to the right.
const ALIGNED_MAX: usize = 20;

/// Spaces before a line, by how deep it stands.
pub(super) fn indent(out: &mut String, depth: usize) {
    pad(out, depth * 2);
}

pub(super) fn pad(out: &mut String, spaces: usize) {
    const SPACES: &str = "                                ";
    let mut left = spaces;
    while left > 0 {
        let now = left.min(SPACES.len());
        out.push_str(&SPACES[..now]);
        left -= now;
    }
}

/// The width of a column in a run of lines.
pub(super) fn column(widths: impl Iterator<Item = usize>) -> usize {
    widths.filter(|width| *width <= ALIGNED_MAX).max().unwrap_or(0)
}

/// The columns of a run of buffer declarations.
#[derive(Clone, Copy, Default)]
pub(super) struct Columns {
    pub(super) name: usize,
    pub(super) kind: usize,
    pub(super) ty: usize,
}

impl Columns {
    /// The columns of rows of `name, kind, type`.
    pub(super) fn of<'a>(rows: impl Iterator<Item = [&'a str; 3]> + Clone) -> Columns {
        let width = |at: usize| column(rows.clone().map(move |row| row[at].len()));
        Columns { name: width(0), kind: width(1), ty: width(2) }
    }
}

/// Writes `buffer @a : uniform    f32[1] binding 0`; `rest` is what follows the type.
pub(super) fn buffer(out: &mut String, columns: Columns, row: [&str; 3], rest: &str) {
    let [name, kind, ty] = row;
    out.push_str("buffer ");
    out.push_str(name);
    pad(out, columns.name.saturating_sub(name.len()));
    out.push_str(" : ");
    out.push_str(kind);
    pad(out, columns.kind.saturating_sub(kind.len()) + 1);
    out.push_str(ty);
    if !rest.is_empty() {
        pad(out, columns.ty.saturating_sub(ty.len()) + 1);
        out.push_str(rest);
    }
}

/// Writes `items` between brackets, `used` columns into the line: on one line if they fit, else filled rows one level
/// deeper than `depth`. Gives the number of line ends written.
pub(super) fn list<'a>(
    out: &mut String,
    depth: usize,
    used: usize,
    items: impl Iterator<Item = &'a str> + Clone,
) -> u32 {
    let width: usize = items.clone().map(|item| item.len() + 2).take(WIDTH).sum();
    out.push('[');
    if width == 0 || used + width <= WIDTH {
        for (at, item) in items.enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            out.push_str(item);
        }
        out.push(']');
        return 0;
    }
    let mut lines = 1;
    let mut column = usize::MAX;
    for item in items {
        if column.saturating_add(item.len() + 2) > WIDTH {
            if column != usize::MAX {
                out.push(',');
                lines += 1;
            }
            out.push('\n');
            indent(out, depth + 1);
            column = (depth + 1) * 2;
        } else {
            out.push_str(", ");
            column += 2;
        }
        out.push_str(item);
        column += item.len();
    }
    out.push('\n');
    indent(out, depth);
    out.push(']');
    lines + 1
}
