//! A case is a name and a function; its outcome is passed, failed with a text, or skipped with a reason.

use anyhow::Result;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// Passed, and there is a figure worth a line.
    Noted(String),
    Failed(String),
    /// The machine lacks something that the case needs.
    Skipped(String),
}

/// What case functions may return; an error is a failure with its whole chain of causes.
impl<T: Into<Outcome>> From<Result<T>> for Outcome {
    fn from(result: Result<T>) -> Self {
        match result {
            Ok(value) => value.into(),
            Err(error) => Self::Failed(format!("{error:#}")),
        }
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Passed
    }
}

type Run = Box<dyn FnOnce() -> Outcome + std::panic::UnwindSafe + Send>;

pub struct Case {
    name: String,
    run: Run,
    is_patient: bool,
}

impl Case {
    /// `name` reads as a sentence: it is what a person sees.
    pub fn new<R: Into<Outcome>>(
        name: impl Into<String>,
        run: impl FnOnce() -> R + std::panic::UnwindSafe + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            run: Box::new(move || run().into()),
            is_patient: false,
        }
    }

    /// Nothing in it is about time: it may run beside another one of the kind.
    #[must_use]
    pub fn patient(self) -> Self {
        Self {
            is_patient: true,
            ..self
        }
    }

    pub(crate) fn is_patient(&self) -> bool {
        self.is_patient
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Carries it out; a panic is a failure like any other.
    pub(crate) fn carry_out(self) -> Outcome {
        std::panic::catch_unwind(self.run).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Outcome::Failed(format!("panicked: {}", text.unwrap_or("without a message")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, bail};

    #[test]
    fn what_a_function_returns_becomes_an_outcome() {
        let noted = || -> Result<Outcome> { Ok(Outcome::Noted("3 ms".into())) };
        assert_eq!(
            Case::new("a", noted).carry_out(),
            Outcome::Noted("3 ms".into())
        );
        let passed = || -> Result<()> { Ok(()) };
        assert_eq!(Case::new("a", passed).carry_out(), Outcome::Passed);
    }

    #[test]
    fn an_error_and_a_panic_are_failures_that_say_why() {
        let failed = || -> Result<()> { bail_out().context("while killing") };
        assert_eq!(
            Case::new("a", failed).carry_out(),
            Outcome::Failed("while killing: no victim".into())
        );
        let panicked = || -> Outcome { panic!("not {}", 1) };
        assert_eq!(
            Case::new("a", panicked).carry_out(),
            Outcome::Failed("panicked: not 1".into())
        );
    }

    fn bail_out() -> Result<()> {
        bail!("no victim")
    }
}
