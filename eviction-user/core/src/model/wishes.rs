//! What a pod's owner asks for by annotations, where the configuration honours them: to be spared, to go before others, or another
//! line than its request.

use std::fmt;

use super::{Pod, Quantity, annotation};

/// Nothing is asked for by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wishes {
    pub protect: bool,
    /// Goes before those that exceed or keep to their requests as it does.
    pub prefer: bool,
    /// Bytes of memory above which it counts as exceeding its request, whatever that is.
    pub memory_threshold: Option<i64>,
}

/// An annotation that says nothing one could go by: it is as if it were not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedWish {
    pub key: &'static str,
    pub value: String,
    expected: &'static str,
}

impl fmt::Display for MalformedWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            expected,
        } = self;
        write!(f, "{key}: {value:?} is ignored: write {expected}")
    }
}

/// Longer values are told by their beginning.
const TOLD: usize = 64;

impl Wishes {
    /// Those of a pod, and what is wrong with the others.
    pub fn of(pod: &Pod) -> (Self, Vec<MalformedWish>) {
        let mut malformed = Vec::new();
        let mut wrong = |key, value: &str, expected| {
            malformed.push(MalformedWish {
                key,
                value: value.chars().take(TOLD).collect(),
                expected,
            });
        };
        let mut is_true = |key| match pod.annotations.get(key).map(String::as_str) {
            None | Some("false") => false,
            Some("true") => true,
            Some(value) => {
                wrong(key, value, "\"true\" or \"false\"");
                false
            }
        };
        let protect = is_true(annotation::PROTECT);
        let prefer = is_true(annotation::PREFER);
        let threshold = pod.annotations.get(annotation::MEMORY_THRESHOLD);
        let memory_threshold = threshold.and_then(|text| {
            let amount = text
                .parse::<Quantity>()
                .ok()
                .map(|quantity| quantity.value());
            let amount = amount.filter(|amount| *amount > 0);
            if amount.is_none() {
                let expected = "an amount of memory above 0, as in \"1Gi\"";
                wrong(annotation::MEMORY_THRESHOLD, text, expected);
            }
            amount
        });
        let wishes = Self {
            protect,
            prefer,
            memory_threshold,
        };
        (wishes, malformed)
    }

    /// Those that count: none, unless they are honoured.
    pub fn honoured(pod: &Pod, honours: bool) -> Self {
        if honours && !pod.annotations.is_empty() {
            Self::of(pod).0
        } else {
            Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Uid;

    fn pod(annotations: &[(&str, &str)]) -> Pod {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Pod {
            annotations: annotations.collect(),
            ..Pod::new(Uid::new("u"), "n", "p")
        }
    }

    #[test]
    fn what_is_asked_for_is_read_and_what_is_malformed_is_as_if_it_were_not_there() {
        let none = Wishes::default();
        let table = [
            (
                "protect",
                "true",
                Wishes {
                    protect: true,
                    ..none
                },
                "",
            ),
            (
                "prefer",
                "true",
                Wishes {
                    prefer: true,
                    ..none
                },
                "",
            ),
            ("protect", "false", none, ""),
            (
                "memory-threshold",
                "1Gi",
                Wishes {
                    memory_threshold: Some(1 << 30),
                    ..none
                },
                "",
            ),
            (
                "protect",
                "yes",
                none,
                "eviction.dev/protect: \"yes\" is ignored: write \"true\" or \"false\"",
            ),
            (
                "prefer",
                "",
                none,
                "eviction.dev/prefer: \"\" is ignored: write \"true\" or \"false\"",
            ),
            (
                "memory-threshold",
                "1 GB",
                none,
                "eviction.dev/memory-threshold: \"1 GB\" is ignored: write an amount of memory above 0, as in \"1Gi\"",
            ),
            (
                "memory-threshold",
                "-1",
                none,
                "eviction.dev/memory-threshold: \"-1\" is ignored: write an amount of memory above 0, as in \"1Gi\"",
            ),
            (
                "memory-threshold",
                "0",
                none,
                "eviction.dev/memory-threshold: \"0\" is ignored: write an amount of memory above 0, as in \"1Gi\"",
            ),
            ("protected", "true", none, ""),
        ];
        for (key, value, wishes, said) in table {
            let key = format!("eviction.dev/{key}");
            let (found, malformed) = Wishes::of(&pod(&[(&key, value)]));
            let malformed: Vec<_> = malformed.iter().map(ToString::to_string).collect();
            assert_eq!(found, wishes, "{key}: {value}");
            assert_eq!(malformed.concat(), said);
        }
    }

    #[test]
    fn unless_they_are_honoured_nothing_is_asked_for() {
        let pod = pod(&[
            ("eviction.dev/protect", "true"),
            ("eviction.dev/prefer", "true"),
        ]);
        assert_eq!(Wishes::honoured(&pod, false), Wishes::default());
        assert!(Wishes::honoured(&pod, true).protect);
    }
}
