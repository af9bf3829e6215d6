//! Running one case and telling what differs.

use std::fmt;
use std::panic::catch_unwind;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::files::Case;

/// Compares what our functions make of `in` with the recorded `out`.
pub(crate) type Check = fn(&Value, &Value) -> Result<(), Mismatch>;

pub(crate) struct CaseOutcome<'a> {
    pub(crate) id: &'a str,
    pub(crate) mismatch: Option<Mismatch>,
}

#[derive(Debug)]
pub(crate) enum Mismatch {
    /// The recording does not have the documented shape.
    Shape(serde_json::Error),
    /// Ours or the translation panicked; the message is on stderr.
    Panicked,
    Differs {
        what: &'static str,
        ours: String,
        recorded: String,
    },
}

impl From<serde_json::Error> for Mismatch {
    fn from(error: serde_json::Error) -> Self {
        Self::Shape(error)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(error) => write!(f, "not in the documented shape: {error}"),
            Self::Panicked => f.write_str("panicked"),
            Self::Differs {
                what,
                ours,
                recorded,
            } => {
                write!(
                    f,
                    "{what} differs\n    ours:     {ours}\n    recorded: {recorded}"
                )
            }
        }
    }
}

pub(crate) fn run(check: Check, case: &Case) -> CaseOutcome<'_> {
    let checked =
        catch_unwind(|| check(&case.input, &case.output)).unwrap_or(Err(Mismatch::Panicked));
    CaseOutcome {
        id: &case.id,
        mismatch: checked.err(),
    }
}

/// A value or a part of one, in its documented shape.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Mismatch> {
    Ok(T::deserialize(value)?)
}

pub(crate) fn same<T: PartialEq + fmt::Debug>(
    what: &'static str,
    ours: &T,
    recorded: &T,
) -> Result<(), Mismatch> {
    if ours == recorded {
        return Ok(());
    }
    Err(Mismatch::Differs {
        what,
        ours: format!("{ours:?}"),
        recorded: format!("{recorded:?}"),
    })
}

/// One of several recorded outcomes has to be ours.
pub(crate) fn among<T: PartialEq + fmt::Debug>(
    what: &'static str,
    ours: &T,
    recorded: &[T],
) -> Result<(), Mismatch> {
    if recorded.contains(ours) {
        return Ok(());
    }
    Err(Mismatch::Differs {
        what,
        ours: format!("{ours:?}"),
        recorded: format!("any of {recorded:?}"),
    })
}
