//! What a replay prints: text for people, one JSON object a line for programs.

use super::{columns, words};
use crate::model::{Action, Timestamp};
use crate::record::{Head, Note, Told};
use crate::telemetry::record::Output;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// `None`: the look could not be judged.
pub(super) type Answer = Option<Vec<Action>>;

/// An input, and what each side said to it.
pub(super) struct Row {
    at: Timestamp,
    wake: String,
    input: &'static str,
    pub(super) recorded: Option<Answer>,
    pub(super) again: Option<Answer>,
    pub(super) other: Option<Answer>,
    /// The recorded answer is not what the engine says again.
    pub(super) differs: bool,
}

impl Row {
    pub(super) fn new(told: &Told) -> Self {
        Self {
            at: told.at,
            wake: told.wake.clone().into_owned(),
            input: told.kind(),
            recorded: None,
            again: None,
            other: None,
            differs: false,
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    record: &'static str,
    t_ns: i64,
    time: &'a str,
    wake: &'a str,
    input: &'static str,
    #[serde(flatten)]
    said: Said<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    One {
        actions: &'a Answer,
    },
    Two {
        recorded: &'a Answer,
        other: &'a Answer,
    },
}

#[derive(Default)]
struct Counts {
    inputs: u64,
    compared: u64,
    differing: u64,
    lost: u64,
    evictions: u64,
    other_evictions: u64,
    first_difference: Option<String>,
}

pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    output: Output,
    compares: bool,
    shows_notes: bool,
    epoch_nanos: i64,
    counts: Counts,
    closed: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        out: &'a mut dyn Write,
        output: Output,
        compares: bool,
        shows_notes: bool,
    ) -> Self {
        Self {
            out,
            output,
            compares,
            shows_notes,
            epoch_nanos: 0,
            counts: Counts::default(),
            closed: false,
        }
    }

    pub(super) fn file(&mut self, file: &Path, head: &Head, forgets: bool) {
        self.epoch_nanos = head.epoch_nanos;
        if self.output == Output::Json {
            return;
        }
        let place = if head.resume.is_some() {
            "in the middle of a run"
        } else {
            "the start of a run"
        };
        let dry = if head.dry_run { ", dry run" } else { "" };
        self.say(&format!(
            "{}: {place}{dry}, by {}",
            file.display(),
            head.program
        ));
        if forgets {
            self.say("note: the other configuration starts here with no memory of the time before");
        }
        if self.compares && self.counts.inputs == 0 {
            let titles = [
                "as recorded".to_owned(),
                "with the other configuration".to_owned(),
            ];
            for line in columns::lines(&titles[..1], &titles[1..]) {
                self.say(&format!("{:27} {line}", ""));
            }
        }
    }

    pub(super) fn row(&mut self, row: &Row) {
        let shown = row.again.as_ref().or(row.recorded.as_ref());
        let counts = &mut self.counts;
        counts.inputs += 1;
        counts.differing += u64::from(row.differs);
        counts.compared += u64::from(row.again.is_some() && row.recorded.is_some());
        counts.evictions += evictions(shown);
        counts.other_evictions += evictions(row.other.as_ref());
        let Some(shown) = shown else { return };
        let time = self.time(row.at);
        if let Some(other) = &row.other {
            self.compare(row, &time, shown, other);
        } else if !is_silent(shown) {
            self.single(row, &time, shown);
        }
        if row.differs {
            let recorded = row.recorded.iter().flat_map(|r| texts(r, words::full));
            let recorded: Vec<_> = recorded.collect();
            self.say_text(&format!(
                "{time} DIFFERS from what was recorded: {}",
                recorded.join("; ")
            ));
        }
    }

    fn single(&mut self, row: &Row, time: &str, shown: &Answer) {
        if self.output == Output::Json {
            return self.json(row, time, "decision", Said::One { actions: shown });
        }
        let texts = texts(shown, words::full);
        for (place, text) in texts.iter().enumerate() {
            if place == 0 {
                self.say(&format!("{time} {:<12} {text}", row.wake));
            } else {
                self.say(&format!("{:40} {text}", ""));
            }
        }
    }

    fn compare(&mut self, row: &Row, time: &str, recorded: &Answer, other: &Answer) {
        let (left, right) = (texts(recorded, words::brief), texts(other, words::brief));
        if left != right && self.counts.first_difference.is_none() {
            self.counts.first_difference = Some(time.to_owned());
        }
        if is_silent(recorded) && is_silent(other) {
            return;
        }
        if self.output == Output::Json {
            return self.json(row, time, "comparison", Said::Two { recorded, other });
        }
        for (place, line) in columns::lines(&left, &right).iter().enumerate() {
            let time = if place == 0 { time } else { "" };
            self.say(&format!("{time:27} {line}"));
        }
    }

    pub(super) fn gap(&mut self, lost: u64) {
        self.counts.lost += lost;
        self.say_text(&format!("{lost} inputs were not recorded here"));
    }

    pub(super) fn note(&mut self, note: &Note) {
        if !self.shows_notes {
            return;
        }
        if self.output == Output::Json {
            #[derive(Serialize)]
            struct NoteLine<'a> {
                record: &'static str,
                #[serde(flatten)]
                note: &'a Note,
            }
            let line = serde_json::to_string(&NoteLine {
                record: "note",
                note,
            });
            return self.say(&line.unwrap_or_else(|e| unprintable(&e)));
        }
        let (at, text) = words::note(note);
        let time = at.map_or(String::new(), |at| self.time(at));
        self.say(&format!("{time:27} {text}"));
    }

    /// Closes with the counts; how many answers are not the recorded ones?
    pub(super) fn summary(mut self) -> u64 {
        let counts = std::mem::take(&mut self.counts);
        let Counts {
            inputs, evictions, ..
        } = counts;
        self.say_text(&format!("{inputs} inputs, {evictions} evictions"));
        if counts.lost > 0 {
            self.say_text(&format!("{} inputs are missing", counts.lost));
        }
        if counts.compared > 0 && counts.differing == 0 {
            self.say_text("decided again: the same as recorded, byte for byte");
        }
        if self.compares {
            let first = counts
                .first_difference
                .map_or("no difference".to_owned(), |at| {
                    format!("first difference at {at}")
                });
            self.say_text(&format!(
                "with the other configuration: {} evictions, {first}",
                counts.other_evictions
            ));
            self.say_text(
                "note: open loop: the recorded world answered to the recorded decisions, so what follows the first difference is a hint",
            );
        }
        counts.differing
    }

    fn json(&mut self, row: &Row, time: &str, record: &'static str, said: Said<'_>) {
        let line = serde_json::to_string(&Line {
            record,
            t_ns: row.at.as_nanos(),
            time,
            wake: &row.wake,
            input: row.input,
            said,
        });
        self.say(&line.unwrap_or_else(|e| unprintable(&e)));
    }

    fn time(&self, at: Timestamp) -> String {
        let nanos = self.epoch_nanos.saturating_add(at.as_nanos());
        u64::try_from(nanos).map_or_else(
            |_| format!("{nanos} ns"),
            |nanos| {
                humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_nanos(nanos))
                    .to_string()
            },
        )
    }

    /// JSON lines stay free of it: it goes to stderr, as warnings do.
    fn say_text(&mut self, line: &str) {
        match self.output {
            Output::Text => self.say(line),
            Output::Json => eprintln!("{line}"),
        }
    }

    fn say(&mut self, line: &str) {
        // A reader that went away has seen enough.
        self.closed = self.closed || writeln!(self.out, "{line}").is_err();
    }
}

fn unprintable(error: &serde_json::Error) -> String {
    format!("{{\"record\":\"error\",\"text\":{:?}}}", error.to_string())
}

fn is_silent(answer: &Answer) -> bool {
    answer.as_ref().is_some_and(Vec::is_empty)
}

fn texts(answer: &Answer, say: impl Fn(&Action) -> Option<String>) -> Vec<String> {
    match answer {
        Some(actions) => actions.iter().filter_map(say).collect(),
        None => vec!["not judged: the storage layout is not known yet".to_owned()],
    }
}

fn evictions(answer: Option<&Answer>) -> u64 {
    let actions = answer.into_iter().flatten().flatten();
    actions
        .filter(|action| matches!(action, Action::Evict(_)))
        .count() as u64
}
