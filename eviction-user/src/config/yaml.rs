//! YAML (and with it JSON) as a tree that knows its lines. Settings are read from the tree rather than
//! straight into structs, because an error has to name file, line *and* key.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Of the key: where a person looks for it.
    pub(super) line: u64,
    pub(super) value: Node,
}

/// The text is no YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) line: u64,
    pub(super) message: String,
}

/// A key that its map has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Duplicate {
    pub(super) key: String,
    pub(super) first: u64,
    pub(super) second: u64,
}

pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let options = serde_saphyr::options! {
        // Both lines of a duplicate are told, so the tree keeps it.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let whole = error.to_string();
        // The library appends the place in words; ours stands in front.
        let message = whole
            .rsplit_once(" at line ")
            .map_or(whole.as_str(), |(message, _)| message);
        SyntaxError {
            line: error.location().map_or(1, |location| location.line()),
            message: message.to_owned(),
        }
    })
}

impl Node {
    /// What it is, for a message about a wrong type.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Integer(value) => format!("the number {value}"),
            Self::Number(value) => format!("the number {value}"),
            Self::Text(text) => format!("the text {text:?}"),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
        }
    }

    /// The first key, at any depth, that its map has twice.
    pub(super) fn duplicate(&self) -> Option<Duplicate> {
        match self {
            Self::Map(entries) => {
                let twice = entries.iter().enumerate().find_map(|(position, entry)| {
                    let first = entries[..position].iter().find(|e| e.key == entry.key)?;
                    Some(Duplicate {
                        key: entry.key.clone(),
                        first: first.line,
                        second: entry.line,
                    })
                });
                twice.or_else(|| entries.iter().find_map(|entry| entry.value.duplicate()))
            }
            Self::List(items) => items.iter().find_map(Self::duplicate),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::Number(value as f64), Node::Integer))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Node>()? {
            map.push(Entry {
                line: key.referenced.line(),
                key: key.value,
                value,
            });
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Vec<Entry> {
        match parse(text) {
            Ok(Node::Map(entries)) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_know_their_lines_in_yaml_and_json() {
        let entries = map("# first\na: 1\nb:\n  c: 10%\n  d: [x, \"2\", true]\n");
        assert_eq!((entries[0].line, &entries[0].value), (2, &Node::Integer(1)));
        let Node::Map(inner) = &entries[1].value else {
            panic!("{entries:?}")
        };
        assert_eq!((inner[0].line, inner[1].line), (4, 5));
        assert_eq!(inner[0].value, Node::Text("10%".into()));
        assert_eq!(
            inner[1].value,
            Node::List(vec![
                Node::Text("x".into()),
                Node::Text("2".into()),
                Node::Bool(true)
            ])
        );
        let entries = map("{\n  \"a\": {\"b\": null},\n  \"c\": 1.5\n}");
        assert_eq!((entries[0].line, entries[1].line), (2, 3));
        assert_eq!(entries[1].value, Node::Number(1.5));
    }

    #[test]
    fn duplicates_are_found_at_any_depth_with_both_lines() {
        let tree = parse("a:\n  b: 1\n  c:\n  - b: 1\n    b: 2\n").unwrap();
        let expected = Duplicate {
            key: "b".into(),
            first: 4,
            second: 5,
        };
        assert_eq!(tree.duplicate(), Some(expected));
        assert_eq!(parse("a: {b: 1}\nb: 1\n").unwrap().duplicate(), None);
    }

    #[test]
    fn broken_yaml_names_its_line() {
        for (text, line) in [
            ("a: 1\nb: [1, 2\n", 2..=3),
            ("a: 1\nb: ]\n", 2..=2),
            ("a: 'x\n", 1..=2),
        ] {
            let error = parse(text).unwrap_err();
            assert!(line.contains(&error.line), "{text:?}: {error:?}");
            assert!(!error.message.contains(" at line "), "{error:?}");
        }
    }

    #[test]
    fn anchors_and_merge_keys_are_resolved() {
        let entries = map("base: &b {x: 1}\nuse:\n  <<: *b\n  y: 2\n");
        let Node::Map(used) = &entries[1].value else {
            panic!("{entries:?}")
        };
        let keys: Vec<_> = used.iter().map(|e| e.key.as_str()).collect();
        assert!(keys.contains(&"x") && keys.contains(&"y"), "{keys:?}");
    }
}
