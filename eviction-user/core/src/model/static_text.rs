//! Texts and lists that are part of the program, read back from a recording.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer};

use super::action::{NodeEvent, ReclaimCall};
use super::annotation;

pub(crate) fn calls<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<&'static [ReclaimCall], D::Error> {
    let read = Vec::<ReclaimCall>::deserialize(from)?;
    [
        ReclaimCall::NONE,
        ReclaimCall::DEAD_CONTAINERS,
        ReclaimCall::UNUSED_IMAGES,
        ReclaimCall::BOTH,
    ]
    .into_iter()
    .find(|known| *known == read)
    .ok_or_else(|| D::Error::invalid_value(Unexpected::Seq, &"reclaim calls, each once, in order"))
}

pub(crate) fn event_reason<'de, D: Deserializer<'de>>(from: D) -> Result<&'static str, D::Error> {
    known(&[NodeEvent::THRESHOLD_MET], &String::deserialize(from)?)
}

pub(crate) fn annotations<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<(&'static str, String)>, D::Error> {
    let read = Vec::<(String, String)>::deserialize(from)?;
    read.into_iter()
        .map(|(key, value)| Ok((known(&annotation::OF_EVENT, &key)?, value)))
        .collect()
}

fn known<E: Error>(texts: &[&'static str], read: &str) -> Result<&'static str, E> {
    texts
        .iter()
        .copied()
        .find(|text| *text == read)
        .ok_or_else(|| E::invalid_value(Unexpected::Str(read), &"a text of this program"))
}
