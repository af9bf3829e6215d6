//! `eviction replay`: what was decided, decided again, or decided otherwise.

mod change;
mod columns;
mod print;
#[cfg(test)]
mod tests;
mod words;

use super::{Exit, Failure};
use crate::record::{
    self, Change, DirectoryError, Frame, Head, OpenError, Player, Reader, Spoiled, Told, codec,
};
use crate::telemetry::record::Output;
use change::ChangeArgs;
use clap::Args;
use print::{Printer, Row};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "With another configuration the replay is open loop: the recorded world answered to the recorded\n\
    decisions. A workload that only the other configuration evicts goes on using memory in the\n\
    recording, one that was evicted is gone in both, and nothing was looked at between the recorded\n\
    looks. Trust the first difference; what follows is a hint."
)]
pub(super) struct ReplayArgs {
    /// A recording, or the directory of `eviction run --record`.
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    /// Print what was recorded, outcomes included, and decide nothing again.
    #[arg(long, conflicts_with_all = change::FLAGS)]
    recorded: bool,
    /// Write the inputs alone, without decisions and outcomes, into a new directory.
    #[arg(long, value_name = "NEW_DIR", conflicts_with_all = change::FLAGS, conflicts_with_all = ["recorded", "speed"])]
    strip: Option<PathBuf>,
    /// Pass the time as it passed then (1), or so many times faster. Without it nothing is waited for.
    #[arg(long, value_name = "FACTOR", value_parser = speed)]
    speed: Option<f64>,
    /// How the decisions are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    change: ChangeArgs,
}

fn speed(text: &str) -> Result<f64, String> {
    let factor: Option<f64> = text.parse().ok();
    factor
        .filter(|factor| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| {
            "must be a number above 0: 1 is the recorded pace, 60 a minute a second".into()
        })
}

pub(super) fn replay(args: &ReplayArgs) -> Result<Exit, Failure> {
    replay_to(args, &mut std::io::stdout())
}

fn replay_to(args: &ReplayArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(to) = &args.strip {
        let torn = record::strip(&args.recording, to).map_err(|e| Failure::usage(&e))?;
        torn.iter().for_each(warn);
        return Ok(Exit::Good);
    }
    let change = args.change.checked()?;
    let files = record::files(&args.recording).map_err(|e| directory_failure(&e))?;
    let mut session = Session::new(args, change, out);
    for file in &files {
        session.play(file)?;
    }
    session.end(&args.recording)
}

fn directory_failure(error: &DirectoryError) -> Failure {
    Failure::usage(&format!(
        "{error}: name a recording or the directory of `eviction run --record`"
    ))
}

fn warn(spoiled: &Spoiled) {
    eprintln!("warning: {spoiled}: what comes before it is replayed");
}

/// One replay over all files.
struct Session<'a> {
    recorded_only: bool,
    again: Player,
    other: Option<Player>,
    printer: Printer<'a>,
    speed: Option<f64>,
    last_at: Option<i64>,
    /// The input whose recorded decisions may follow.
    open: Option<Row>,
    heads: usize,
    corrupt: bool,
}

impl<'a> Session<'a> {
    fn new(args: &ReplayArgs, change: Option<Change>, out: &'a mut dyn Write) -> Self {
        Self {
            recorded_only: args.recorded,
            again: Player::as_recorded(),
            printer: Printer::new(out, args.output, change.is_some(), args.recorded),
            other: change.map(Player::with),
            speed: args.speed,
            last_at: None,
            open: None,
            heads: 0,
            corrupt: false,
        }
    }

    fn play(&mut self, file: &Path) -> Result<(), Failure> {
        let mut reader = match Reader::open(file) {
            Ok(reader) => reader,
            Err(OpenError::Head(spoiled)) if spoiled.is_torn() => {
                warn(&spoiled);
                return Ok(());
            }
            Err(error) => return Err(Failure::usage(&error)),
        };
        self.start(reader.head(), file)?;
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => self.take(frame, file)?,
                Ok(None) => break,
                Err(spoiled) => {
                    warn(&spoiled);
                    self.corrupt |= !spoiled.is_torn();
                    break;
                }
            }
        }
        self.close();
        Ok(())
    }

    fn start(&mut self, head: &Head, file: &Path) -> Result<(), Failure> {
        self.heads += 1;
        self.last_at = None;
        let broken = |e: record::PlayError| Failure::usage(&format!("{}: {e}", file.display()));
        self.again.start(head).map_err(broken)?;
        let mut forgets = false;
        if let Some(other) = &mut self.other {
            forgets = other.start(head).map_err(broken)?;
        }
        self.printer.file(file, head, forgets);
        Ok(())
    }

    fn take(&mut self, frame: Frame, file: &Path) -> Result<(), Failure> {
        let broken = |e: record::PlayError| Failure::usage(&format!("{}: {e}", file.display()));
        match frame {
            Frame::Input(told) => {
                self.close();
                self.pass_time(&told);
                let mut row = Row::new(&told);
                if !self.recorded_only {
                    row.again = Some(self.again.decide(&told).map_err(broken)?.actions);
                }
                if let Some(other) = &mut self.other {
                    row.other = Some(other.decide(&told).map_err(broken)?.actions);
                }
                self.open = Some(row);
            }
            Frame::Decisions(actions) => {
                if let Some(row) = &mut self.open {
                    row.recorded = Some(actions);
                }
            }
            Frame::Gap(gap) => {
                self.close();
                self.again.skip_gap(&gap.resume).map_err(broken)?;
                if let Some(other) = &mut self.other {
                    other.skip_gap(&gap.resume).map_err(broken)?;
                }
                self.printer.gap(gap.lost);
            }
            Frame::Note(note) => {
                self.close();
                self.printer.note(&note);
            }
            // The reader lets none through.
            Frame::Head(_) => {}
        }
        Ok(())
    }

    /// The row is complete: what follows belongs to something else.
    fn close(&mut self) {
        if let Some(mut row) = self.open.take() {
            if let (Some(recorded), Some(again)) = (&row.recorded, &row.again) {
                row.differs = !codec::is_same(recorded, again).unwrap_or(false);
            }
            self.printer.row(&row);
        }
    }

    fn pass_time(&mut self, told: &Told) {
        let at = told.at.as_nanos();
        if let (Some(factor), Some(last)) = (self.speed, self.last_at) {
            let nanos = u64::try_from(at.saturating_sub(last)).unwrap_or(0);
            let wait = nanos as f64 / 1e9 / factor;
            std::thread::sleep(Duration::try_from_secs_f64(wait).unwrap_or(Duration::ZERO));
        }
        self.last_at = Some(at);
    }

    fn end(self, recording: &Path) -> Result<Exit, Failure> {
        if self.heads == 0 {
            return Err(Failure::usage(&format!(
                "{}: nothing of it can be read",
                recording.display()
            )));
        }
        let differing = self.printer.summary();
        if differing > 0 {
            return Err(Failure::runtime(&format!(
                "{}: {differing} decisions differ from the recorded ones: was it recorded by another version of the program?",
                recording.display()
            )));
        }
        Ok(if self.corrupt {
            Exit::Runtime
        } else {
            Exit::Good
        })
    }
}
