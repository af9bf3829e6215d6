//! Paths in Rust source that lead to a module of the workspace: `crate::a::b`, `super::a`, `some_crate::a`,
//! in `use` trees, in expressions and in macro bodies. Works on tokens, so comments and strings do not count.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path from a crate's root, and the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// `crate`, or the crate's name.
    pub(super) root: String,
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// All references in `source`, which lies in `module` (`["agent", "run"]`) of its crate.
pub(super) fn references(
    source: &str,
    module: &[String],
    crates: &[&str],
) -> Result<Vec<Reference>, String> {
    let tokens: TokenStream = source
        .parse()
        .map_err(|error| format!("is not Rust: {error}"))?;
    let mut found = Vec::new();
    let mut walk = Walk {
        crates,
        module: module.to_vec(),
        found: &mut found,
    };
    walk.stream(tokens);
    Ok(found)
}

struct Walk<'a> {
    crates: &'a [&'a str],
    module: Vec<String>,
    found: &'a mut Vec<Reference>,
}

impl Walk<'_> {
    fn stream(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at += self.token(&tokens, at);
        }
    }

    /// Handles what starts at `at`; returns how many tokens it took.
    fn token(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let inner_module = (group.delimiter() == Delimiter::Brace)
                    .then(|| inline_module(tokens, at))
                    .flatten();
                let depth = self.module.len();
                self.module.extend(inner_module);
                self.stream(group.stream());
                self.module.truncate(depth);
                1
            }
            TokenTree::Ident(ident) if is_path_start(tokens, at) => {
                let (name, line) = (ident.to_string(), ident.span().start().line);
                let (root, prefix) = match name.as_str() {
                    "super" => {
                        let (root, prefix, taken) = self.climb(tokens, at);
                        let Some(prefix) = prefix else { return taken };
                        collect(tokens, at + taken, prefix, &mut |path| {
                            self.found.push(Reference {
                                root: root.clone(),
                                path,
                                line,
                            })
                        });
                        return taken;
                    }
                    "crate" => ("crate".to_owned(), Vec::new()),
                    known if self.crates.contains(&known) => (name, Vec::new()),
                    _ => return 1,
                };
                collect(tokens, at + 3, prefix, &mut |path| {
                    self.found.push(Reference {
                        root: root.clone(),
                        path,
                        line,
                    })
                });
                3
            }
            _ => 1,
        }
    }

    /// `super::super::` from here: the prefix it leads to, and the tokens it took. Nothing above the root.
    fn climb(&self, tokens: &[TokenTree], at: usize) -> (String, Option<Vec<String>>, usize) {
        let mut taken = 0;
        let mut depth = self.module.len();
        while is_ident(tokens.get(at + taken), "super") && is_colons(tokens, at + taken + 1) {
            taken += 3;
            let Some(above) = depth.checked_sub(1) else {
                return ("crate".into(), None, taken);
            };
            depth = above;
        }
        ("crate".into(), Some(self.module[..depth].to_vec()), taken)
    }
}

/// Follows a use tree or a path; calls `say` for each complete path.
fn collect(
    tokens: &[TokenTree],
    at: usize,
    mut path: Vec<String>,
    say: &mut dyn FnMut(Vec<String>),
) {
    let mut at = at;
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => {
                path.push(ident.to_string());
                if !is_colons(tokens, at + 1) {
                    return say(path);
                }
                at += 3;
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in inner.split(
                    |token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','),
                ) {
                    if !branch.is_empty() {
                        collect(branch, 0, path.clone(), say);
                    }
                }
                return;
            }
            // `*`, `<`, or the end
            _ => return say(path),
        }
    }
}

/// An identifier followed by `::` and not itself in the middle of a path.
fn is_path_start(tokens: &[TokenTree], at: usize) -> bool {
    let after_colons = at >= 2 && is_colons(tokens, at - 2);
    !after_colons && is_colons(tokens, at + 1)
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(tokens.get(at)) && colon(tokens.get(at + 1))
}

fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

/// The name of `mod name { ... }` whose braces are at `at`.
fn inline_module(tokens: &[TokenTree], at: usize) -> Option<String> {
    let (keyword, name) = (at.checked_sub(2)?, at.checked_sub(1)?);
    match tokens.get(name) {
        Some(TokenTree::Ident(name)) if is_ident(tokens.get(keyword), "mod") => {
            Some(name.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let module = ["agent".to_owned(), "run".to_owned()];
        let references = references(source, &module, &["eviction_core"]).unwrap();
        references
            .iter()
            .map(|one| format!("{}: {}::{}", one.line, one.root, one.path.join("::")))
            .collect()
    }

    #[test]
    fn every_form_of_a_path_is_seen() {
        let source = "\
use crate::model::{Signal, quantity::{self, Quantity}};
use eviction_core::policy;
fn f() -> crate::sys::Clock { super::super::host::kill() }
macro_rules! m { () => { $crate::cli::run() } }
";
        assert_eq!(
            found(source),
            [
                "1: crate::model::Signal",
                "1: crate::model::quantity::self",
                "1: crate::model::quantity::Quantity",
                "2: eviction_core::policy",
                "3: crate::sys::Clock",
                "3: crate::host::kill",
                "4: crate::cli::run",
            ]
        );
    }

    #[test]
    fn super_counts_inline_modules() {
        assert_eq!(
            found(
                "mod tests { use super::*; use super::super::pace; use super::super::super::cli; }"
            ),
            [
                "1: crate::agent::run",
                "1: crate::agent::pace",
                "1: crate::cli",
            ]
        );
    }

    #[test]
    fn comments_strings_and_visibility_do_not_count() {
        assert!(
            found("// crate::cli::run\npub(crate) fn f() -> &'static str { \"crate::cli::run\" }")
                .is_empty()
        );
    }
}
