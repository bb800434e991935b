//! The driver contract's own surface: what bytes of one program cannot show.

use crate::Cause;
use crate::batch::{Group, Level, Plan, Problem, Procedure, Track, Work};
use vyre_driver::VyreBackend;

pub(crate) fn groups() -> Vec<Group> {
    const PROCEDURES: [(&str, Procedure); 1] = [("driver/identity", identity)];
    let group = |(name, procedure): (&str, Procedure)| Group {
        name: name.into(),
        level: Level::Random,
        track: Track::Integer,
        seeded: false,
        work: Work::Procedure(procedure),
    };
    PROCEDURES.into_iter().map(group).collect()
}

/// The id is a word, and the same each time.
fn identity(driver: &dyn VyreBackend, _: &Plan<'_>) -> Result<Vec<u8>, Problem> {
    let id = driver.id();
    if id.is_empty()
        || id != driver.id()
        || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    {
        let message = format!("the id is `{id}`, and ids are letters, digits, `-` and `_`, and never change");
        return Err(Problem { cause: Cause::DriverContract, message });
    }
    Ok(id.into())
}
