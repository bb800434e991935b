//! A run as JUnit's XML, which CI systems show: one test case for each group.

use crate::report::{GroupReport, Report};
use crate::show::escape;
use std::fmt::Write;

impl Report {
    /// The run in JUnit's XML. A group that failed has the text of its first failure; one that did not run is skipped.
    pub fn to_junit(&self) -> String {
        let group_names = |name: &str| self.groups.iter().any(|group| group.name == name);
        // What fails before any group does, such as a limit below the floor.
        let outside: Vec<_> =
            self.failures.iter().filter(|failure| !group_names(group_of(&failure.case))).collect();
        let failed = self.groups.iter().filter(|group| group.failed > 0).count() + outside.len();
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"{}\" timestamp=\"{}\" time=\"{:.3}\">\n",
            escape(&format!("vyre conformance of {}", self.backend)),
            self.groups.len() + outside.len() + self.unrun.len(),
            self.unrun.len(),
            escape(self.started.trim_end_matches('Z')),
            self.elapsed.as_secs_f64()
        );
        for failure in outside {
            test_case(&mut xml, &failure.case, 0, Some(told(failure.cause.code(), &failure.to_string())));
        }
        for group in &self.groups {
            test_case(&mut xml, &group.name, group.cases, self.told(group));
        }
        for name in &self.unrun {
            test_case(&mut xml, name, 0, Some("<skipped message=\"the run ended before\"/>".into()));
        }
        xml.push_str("</testsuite>\n</testsuites>\n");
        xml
    }

    /// A group's failure.
    fn told(&self, group: &GroupReport) -> Option<String> {
        let first = self.failures.iter().find(|failure| group_of(&failure.case) == group.name);
        match first {
            Some(failure) => Some(told(failure.cause.code(), &failure.to_string())),
            None => (group.failed > 0).then(|| told("unknown", &format!("{} batches failed", group.failed))),
        }
    }
}

fn told(cause: &str, text: &str) -> String {
    let message = escape(text.lines().nth(1).unwrap_or_default().trim());
    format!("<failure type=\"{cause}\" message=\"{message}\">{}</failure>", escape(text))
}

/// The group of a case's name.
fn group_of(case: &str) -> &str {
    case.split_once(':').map_or(case, |(group, _)| group)
}

fn test_case(xml: &mut String, name: &str, cases: u64, inside: Option<String>) {
    let (class, short) = name.rsplit_once('/').unwrap_or(("", name));
    let class = format!("vyre.{}", class.replace('/', "."));
    let _ = write!(
        xml,
        "<testcase classname=\"{}\" name=\"{}\" assertions=\"{cases}\"",
        escape(class.trim_end_matches('.')),
        escape(short)
    );
    let _ = match inside {
        None => writeln!(xml, "/>"),
        Some(inside) => writeln!(xml, ">\n{inside}\n</testcase>"),
    };
}
