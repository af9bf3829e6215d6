//! The grammar of the kubelet's eviction flags: `sig<limit,sig<limit` and `sig=value,sig=value`.

use std::collections::BTreeMap;

/// A piece of a flag without its separator, in the kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed pair, expect string{separator}string")]
pub struct MalformedPair {
    pub separator: char,
    /// The piece as written, for a message that names it.
    pub piece: String,
}

/// Limits: `memory.available<100Mi,nodefs.available<10%`.
pub fn limits(text: &str) -> Result<BTreeMap<String, String>, MalformedPair> {
    pairs(text, '<')
}

/// Grace periods and minimum reclaims: `memory.available=30s`.
pub fn values(text: &str) -> Result<BTreeMap<String, String>, MalformedPair> {
    pairs(text, '=')
}

/// Empty pieces are ignored, keys and values trimmed, and a later pair wins.
fn pairs(text: &str, separator: char) -> Result<BTreeMap<String, String>, MalformedPair> {
    text.split(',')
        .filter(|piece| !piece.is_empty())
        .map(|piece| match piece.split_once(separator) {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => Err(MalformedPair {
                separator,
                piece: piece.to_owned(),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_trimmed_and_empty_pieces_ignored() {
        let parsed = limits("memory.available<100Mi,, nodefs.available < 10% ,").unwrap();
        let expected = [("memory.available", "100Mi"), ("nodefs.available", "10%")];
        assert_eq!(
            parsed,
            expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
        );
        assert!(values("").unwrap().is_empty());
    }

    #[test]
    fn a_piece_without_separator_is_named() {
        let error = limits("memory.available<1Gi,nodefs.available=10%").unwrap_err();
        assert_eq!(error.to_string(), "malformed pair, expect string<string");
        assert_eq!(error.piece, "nodefs.available=10%");
        assert_eq!(
            values("a").unwrap_err().to_string(),
            "malformed pair, expect string=string"
        );
    }
}
