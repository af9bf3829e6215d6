//! A strict reader of the OpenMetrics text format, as a scraper is one: what it would refuse is an error here. It reads
//! what it is given line by line and asks nothing of the encoder that wrote it.

use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// All samples by series: the name with its labels, as written.
#[derive(Debug, Default)]
pub struct Exposition {
    samples: BTreeMap<String, f64>,
    /// The same with their labels in order: another order makes no other series.
    known: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Family {
    kind: String,
    has_help: bool,
}

/// What a type's samples may add to the name of their family.
fn suffixes(kind: &str) -> Result<&'static [&'static str]> {
    Ok(match kind {
        "gauge" => &[""],
        "counter" => &["_total"],
        "histogram" => &["_bucket", "_count", "_sum"],
        "info" => &["_info"],
        other => bail!("unknown type {other:?}"),
    })
}

impl Exposition {
    pub fn read(text: &str) -> Result<Self> {
        let body = text
            .strip_suffix("# EOF\n")
            .context("no # EOF at the end")?;
        let mut families: BTreeMap<&str, Family> = BTreeMap::new();
        let mut read = Self::default();
        let mut current = "";
        for line in body.lines() {
            let good = match line.strip_prefix("# ") {
                Some(comment) => {
                    let (family, kind) = comment_of(comment)?;
                    if family != current {
                        ensure!(!families.contains_key(family), "{family} comes twice");
                    }
                    current = family;
                    let family = families.entry(family).or_default();
                    match kind {
                        Comment::Help => {
                            ensure!(!family.has_help, "{current} has HELP twice");
                            family.has_help = true;
                        }
                        Comment::Type(kind) => family.kind = kind.to_owned(),
                        Comment::Unit(unit) => {
                            ensure!(current.ends_with(&format!("_{unit}")), "unit {unit}");
                        }
                    }
                    Ok(())
                }
                None => families
                    .get(current)
                    .context("a sample before any family")
                    .and_then(|family| read.sample(line, current, family)),
            };
            good.with_context(|| format!("in {line:?}"))?;
        }
        ensure!(!read.samples.is_empty(), "there are no samples");
        Ok(read)
    }

    /// `series`: name and labels as written.
    pub fn value(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// All series that begin so.
    pub fn series<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        let all = self
            .samples
            .iter()
            .map(|(series, value)| (series.as_str(), *value));
        all.filter(move |(series, _)| series.starts_with(prefix))
    }

    fn sample(&mut self, line: &str, name: &str, family: &Family) -> Result<()> {
        ensure!(family.has_help, "{name} has no HELP");
        let rest = line
            .strip_prefix(name)
            .with_context(|| format!("no sample of {name}"))?;
        let end = rest.find(['{', ' ']).context("no value")?;
        let (suffix, rest) = rest.split_at(end);
        let kind = &family.kind;
        ensure!(
            suffixes(kind)?.contains(&suffix),
            "a {kind} has no {suffix:?}"
        );
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (BTreeSet::new(), rest),
        };
        let series = &line[..line.len() - rest.len()];
        let figures = rest.strip_prefix(' ').context("no value")?;
        let (value, exemplar) = match figures.split_once(" # {") {
            Some((value, exemplar)) => (value, Some(exemplar)),
            None => (figures, None),
        };
        let value: f64 = value.parse().context("the value")?;
        ensure!(value >= 0.0 || kind == "gauge", "it is negative");
        if let Some(exemplar) = exemplar {
            let (_, figures) = self::labels(exemplar)?;
            let mut figures = figures.trim_start().split(' ');
            ensure!(
                figures.all(|figure| figure.parse::<f64>().is_ok()),
                "the exemplar is no figure"
            );
        }
        ensure!(
            self.known.insert(format!("{name}{suffix}{labels:?}")),
            "the series comes twice"
        );
        self.samples.insert(series.to_owned(), value);
        Ok(())
    }
}

enum Comment<'a> {
    Help,
    Type(&'a str),
    Unit(&'a str),
}

fn comment_of(comment: &str) -> Result<(&str, Comment<'_>)> {
    let mut parts = comment.splitn(3, ' ');
    let (Some(word), Some(family), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        bail!("a comment that says nothing: {comment:?}");
    };
    is_name(family)?;
    let comment = match word {
        "HELP" => Comment::Help,
        "TYPE" => Comment::Type(rest),
        "UNIT" => Comment::Unit(rest),
        other => bail!("unknown comment {other:?}"),
    };
    ensure!(!rest.is_empty(), "{word} of {family} is empty");
    Ok((family, comment))
}

/// What stands between the braces, and what comes after them.
fn labels(mut rest: &str) -> Result<(BTreeSet<(&str, String)>, &str)> {
    let mut labels = BTreeSet::new();
    let mut names = BTreeSet::new();
    loop {
        let (name, after) = rest.split_once("=\"").context("a label without a value")?;
        is_name(name)?;
        ensure!(names.insert(name), "the label {name} comes twice");
        let (value, after) = quoted(after)?;
        labels.insert((name, value));
        if let Some(after) = after.strip_prefix('}') {
            return Ok((labels, after));
        }
        rest = after
            .strip_prefix(',')
            .context("neither , nor } after a label")?;
    }
}

/// Up to the closing quote, and what comes after it.
fn quoted(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, c @ ('"' | '\\'))) => value.push(c),
                other => bail!("\\ before {other:?}"),
            },
            c => value.push(c),
        }
    }
    bail!("a value without an end")
}

fn is_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    ensure!(starts && name.chars().all(good), "{name:?} is no name");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
# HELP a_seconds How long.
# TYPE a_seconds histogram
# UNIT a_seconds seconds
a_seconds_sum 0.5
a_seconds_count 1
a_seconds_bucket{le=\"+Inf\"} 1 # {id=\"1-2\"} 0.5 1700000000.1
# HELP b Left.
# TYPE b gauge
b{x=\"a \\\"q\\\" {b}, c\"} -3
# EOF
";

    fn error(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        format!(
            "{:#}",
            Exposition::read(&GOOD.replace(from, to)).unwrap_err()
        )
    }

    #[test]
    fn what_is_right_is_read() {
        let read = Exposition::read(GOOD).unwrap();
        assert_eq!(read.value("a_seconds_count"), Some(1.0));
        assert_eq!(read.value(r#"b{x="a \"q\" {b}, c"}"#), Some(-3.0));
        assert_eq!(read.series("a_seconds_").count(), 3);
    }

    #[test]
    fn what_a_scraper_would_refuse_is_an_error() {
        for (from, to, said) in [
            ("# EOF\n", "", "no # EOF"),
            ("# HELP b Left.\n", "", "b has no HELP"),
            ("# TYPE b gauge", "# TYPE b tachometer", "unknown type"),
            (
                "a_seconds_count 1",
                "a_seconds_total 1",
                "has no \"_total\"",
            ),
            ("a_seconds_count 1", "a_seconds_count", "no value"),
            ("a_seconds_count 1", "a_seconds_count one", "the value"),
            ("a_seconds_count 1", "a_seconds_count -1", "negative"),
            (
                "a_seconds_count 1",
                "a_seconds_count 1\na_seconds_count 1",
                "twice",
            ),
            ("\\\"q\\\"", "\"q\"", "neither , nor }"),
            (
                "seconds\na_seconds_sum",
                "bytes\na_seconds_sum",
                "unit bytes",
            ),
            ("# TYPE b", "# HELP b x\n# TYPE b", "HELP twice"),
            ("# EOF", "# TYPE a_seconds gauge\n# EOF", "comes twice"),
        ] {
            let why = error(from, to);
            assert!(why.contains(said), "{to:?}: {why}");
        }
    }
}
