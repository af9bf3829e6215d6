//! A load that does what it is told, one command a line, and answers when it is done: what it uses up is known
//! between any two commands.

mod files;
mod forks;
mod regions;

use regions::Regions;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::str::FromStr;

/// One thing to do. Sizes in KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take anonymous memory, page by page.
    Touch { kib: usize },
    /// Take anonymous memory in huge pages, where the kernel gives them.
    TouchHuge { kib: usize },
    /// Make the last mapping larger and let it move.
    Remap,
    /// Give anonymous memory back, the youngest mappings first: at least so much, if there is.
    Release { kib: usize },
    /// Append to a file.
    Write { path: PathBuf, kib: usize },
    /// Read a file twice, which makes its pages active.
    Read { path: PathBuf },
    /// Delete a file.
    Unlink { path: PathBuf },
    /// Fork children that each take some memory and end.
    Fork { children: usize, kib: usize },
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no command of this load")]
pub struct UnknownCommand(String);

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Touch { kib } => write!(f, "touch {kib}"),
            Self::TouchHuge { kib } => write!(f, "touch-huge {kib}"),
            Self::Remap => f.write_str("remap"),
            Self::Release { kib } => write!(f, "release {kib}"),
            Self::Write { path, kib } => write!(f, "write {kib} {}", path.display()),
            Self::Read { path } => write!(f, "read {}", path.display()),
            Self::Unlink { path } => write!(f, "unlink {}", path.display()),
            Self::Fork { children, kib } => write!(f, "fork {children} {kib}"),
        }
    }
}

impl FromStr for Command {
    type Err = UnknownCommand;

    fn from_str(line: &str) -> Result<Self, UnknownCommand> {
        let words: Vec<_> = line.split_whitespace().collect();
        let unknown = || UnknownCommand(line.to_owned());
        let size = |text: &str| text.parse().map_err(|_| unknown());
        Ok(match words.as_slice() {
            ["touch", kib] => Self::Touch { kib: size(kib)? },
            ["touch-huge", kib] => Self::TouchHuge { kib: size(kib)? },
            ["remap"] => Self::Remap,
            ["release", kib] => Self::Release { kib: size(kib)? },
            ["write", kib, path] => Self::Write {
                path: path.into(),
                kib: size(kib)?,
            },
            ["read", path] => Self::Read { path: path.into() },
            ["unlink", path] => Self::Unlink { path: path.into() },
            ["fork", children, kib] => Self::Fork {
                children: size(children)?,
                kib: size(kib)?,
            },
            _ => return Err(unknown()),
        })
    }
}

/// Carries out what comes on standard input until it ends. Every command is answered by one line, `ok` or the error.
pub fn obey() -> io::Result<()> {
    let mut regions = Regions::default();
    let mut answers = io::stdout().lock();
    writeln!(answers, "ok")?;
    for line in io::stdin().lock().lines() {
        let done = line?
            .parse::<Command>()
            .map_err(io::Error::other)
            .and_then(|command| carry_out(&command, &mut regions));
        match done {
            Ok(()) => writeln!(answers, "ok")?,
            Err(error) => writeln!(answers, "{error}")?,
        }
    }
    Ok(())
}

fn carry_out(command: &Command, regions: &mut Regions) -> io::Result<()> {
    match command {
        Command::Touch { kib } => regions.touch(kib * 1024),
        Command::TouchHuge { kib } => regions.touch_huge(kib * 1024),
        Command::Remap => regions.remap(),
        Command::Release { kib } => regions.release(kib.saturating_mul(1024)),
        Command::Write { path, kib } => files::append(path, kib * 1024),
        Command::Read { path } => files::read_twice(path),
        Command::Unlink { path } => std::fs::remove_file(path),
        Command::Fork { children, kib } => forks::storm(*children, kib * 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_survives_its_line() {
        let path = PathBuf::from("/tmp/x");
        for command in [
            Command::Touch { kib: 1 },
            Command::TouchHuge { kib: 2048 },
            Command::Remap,
            Command::Release { kib: 7 },
            Command::Write {
                path: path.clone(),
                kib: 3,
            },
            Command::Read { path: path.clone() },
            Command::Unlink { path },
            Command::Fork {
                children: 4,
                kib: 5,
            },
        ] {
            assert_eq!(command.to_string().parse::<Command>().unwrap(), command);
        }
        assert!("touch much".parse::<Command>().is_err());
    }
}
