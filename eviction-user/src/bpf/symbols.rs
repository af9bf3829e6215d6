//! What `/proc/kallsyms` says of the few symbols that matter here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

/// The node's counters of all NUMA nodes together.
const NODE_STATS: &str = "vm_node_stat";
/// How compilers name copies of a function that they have specialised; gcc may append both, in either order.
const COPIES: [&str; 2] = ["isra", "constprop"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbols {
    /// Those of the wanted ones that are there.
    pub(super) found: BTreeSet<String>,
    /// Specialised copies of the wanted functions, by the function's own name (user case 58).
    pub(super) copies: BTreeMap<String, Vec<String>>,
    /// The address of [`NODE_STATS`], where addresses are shown (`kernel.kptr_restrict`).
    pub(super) node_stats: Option<u64>,
}

impl Symbols {
    /// Empty if the file cannot be read.
    pub(super) fn read(path: &Path, wanted: &BTreeSet<String>) -> Self {
        File::open(path).map_or_else(
            |_| Self::default(),
            |file| Self::parse(BufReader::new(file), wanted),
        )
    }

    fn parse(lines: impl BufRead, wanted: &BTreeSet<String>) -> Self {
        let mut symbols = Self::default();
        for line in lines.lines().map_while(Result::ok) {
            let mut fields = line.split_whitespace();
            let (Some(address), Some(_), Some(name)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if name == NODE_STATS {
                let address = u64::from_str_radix(address, 16).ok();
                symbols.node_stats = address.filter(|address| *address != 0);
            } else if let Some(name) = wanted.get(name) {
                symbols.found.insert(name.clone());
            } else if let Some(function) = copied_from(name).and_then(|own| wanted.get(own)) {
                let copies = symbols.copies.entry(function.clone()).or_default();
                copies.push(name.to_owned());
            }
        }
        symbols
    }
}

/// The function that a specialised copy was made from. `.part` and `.cold` are pieces of a function, not copies.
fn copied_from(symbol: &str) -> Option<&str> {
    let (own, suffixes) = symbol.split_once('.')?;
    let mut words = suffixes.split('.');
    let all_copies =
        words.all(|word| COPIES.contains(&word) || word.bytes().all(|b| b.is_ascii_digit()));
    (all_copies && COPIES.iter().any(|copy| suffixes.contains(copy))).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kallsyms: &str) -> Symbols {
        let wanted = ["page_counter_try_charge", "__traceiter_xfs_create"]
            .map(str::to_owned)
            .into();
        Symbols::parse(kallsyms.as_bytes(), &wanted)
    }

    #[test]
    fn symbols_are_found_with_and_without_a_module() {
        let symbols = parse(
            "0000000000000000 T page_counter_try_charge\n0000000000000000 t __traceiter_xfs_create\t[xfs]\n\
             0000000000000000 T page_counter_try_charge_more\n",
        );
        assert_eq!(
            symbols.found.into_iter().collect::<Vec<_>>(),
            ["__traceiter_xfs_create", "page_counter_try_charge"]
        );
    }

    #[test]
    fn case_58_every_specialised_copy_of_a_function_is_found() {
        let symbols = parse(
            "ffffffff81000000 t page_counter_try_charge.isra.0\n\
             ffffffff81000100 t page_counter_try_charge.constprop.12.isra.3\n\
             ffffffff81000200 t page_counter_try_charge.cold\n\
             ffffffff81000300 t page_counter_try_charge.part.0\n\
             ffffffff81000400 t something_else.isra.0\n",
        );
        let copies = &symbols.copies["page_counter_try_charge"];
        assert_eq!(
            *copies,
            [
                "page_counter_try_charge.isra.0",
                "page_counter_try_charge.constprop.12.isra.3"
            ]
        );
        assert!(symbols.found.is_empty() && symbols.copies.len() == 1);
    }

    #[test]
    fn an_address_that_is_hidden_is_none() {
        assert_eq!(
            parse("ffffffff9a5f2c40 D vm_node_stat\n").node_stats,
            Some(0xffff_ffff_9a5f_2c40)
        );
        assert_eq!(parse("0000000000000000 D vm_node_stat\n").node_stats, None);
    }
}
