//! An error with all that led to it, in one line.

use std::error::Error;

/// From the outermost to the first cause. What an error has said of its cause already is not said again.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    told_by(error, ToString::to_string)
}

/// The same, each in the `words` for it.
pub fn told_by(
    error: &(dyn Error + 'static),
    words: impl Fn(&(dyn Error + 'static)) -> String,
) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let said = words(cause);
        if !line.ends_with(&said) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&said);
        }
        next = cause.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Broken {
        #[error("no list: {0}")]
        Quoting(#[source] Box<Broken>),
        #[error("no answer")]
        Silent(#[source] std::io::Error),
    }

    #[test]
    fn every_cause_is_told_once() {
        let refused = std::io::Error::other("refused");
        let error = Broken::Quoting(Box::new(Broken::Silent(refused)));
        assert_eq!(causes(&error), "no list: no answer: refused");
    }
}
