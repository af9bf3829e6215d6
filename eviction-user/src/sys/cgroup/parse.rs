//! Pure parsers of cgroup files.

/// A file with one number; v2 writes `max` where there is no limit.
pub fn single(content: &[u8]) -> Option<u64> {
    let text = trimmed(content);
    if text == b"max" {
        Some(u64::MAX)
    } else {
        number(text)
    }
}

/// The value of `key` in a file of `key value` lines (`memory.stat`, `memory.events`, `memory.oom_control`).
pub fn flat_keyed(content: &[u8], key: &str) -> Option<u64> {
    content.split(|&b| b == b'\n').find_map(|line| {
        let rest = line.strip_prefix(key.as_bytes())?.strip_prefix(b" ")?;
        number(trimmed(rest))
    })
}

/// The values of several keys of such a file, which is gone through once.
pub fn flat_keyed_all<const N: usize>(content: &[u8], keys: [&str; N]) -> [Option<u64>; N] {
    let mut values = [None; N];
    for line in content.split(|&b| b == b'\n') {
        let Some(space) = line.iter().position(|&b| b == b' ') else {
            continue;
        };
        let (key, rest) = line.split_at(space);
        if let Some(place) = keys.iter().position(|wanted| wanted.as_bytes() == key) {
            values[place] = number(trimmed(rest));
        }
    }
    values
}

/// The process ids of `cgroup.procs`.
pub fn pids(content: &[u8]) -> impl Iterator<Item = i32> + '_ {
    content
        .split(|&b| b == b'\n')
        .filter_map(|line| number(trimmed(line)))
        // 0 stands for a process of another PID namespace: nothing that can be addressed.
        .filter_map(|pid| i32::try_from(pid).ok().filter(|&pid| pid > 0))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_numbers_and_max() {
        assert_eq!(single(b"4096\n"), Some(4096));
        assert_eq!(single(b"max\n"), Some(u64::MAX));
        assert_eq!(
            single(b"9223372036854771712\n"),
            Some(9_223_372_036_854_771_712)
        );
        assert_eq!(single(b""), None);
        assert_eq!(single(b"-1\n"), None);
    }

    #[test]
    fn keys_are_matched_whole() {
        let stat = b"anon 10\ninactive_anon 20\ninactive_file 30\ntotal_inactive_file 40\n";
        assert_eq!(flat_keyed(stat, "inactive_file"), Some(30));
        assert_eq!(flat_keyed(stat, "total_inactive_file"), Some(40));
        assert_eq!(flat_keyed(stat, "file"), None);
        assert_eq!(flat_keyed(b"oom_kill 2", "oom"), None);
    }

    #[test]
    fn several_keys_are_found_in_any_order_and_the_missing_ones_are_told() {
        let stat = b"anon 10\ninactive_anon 20\nbroken\nfile x\ninactive_file 30\n";
        let keys = ["inactive_file", "gone", "anon", "file"];
        assert_eq!(flat_keyed_all(stat, keys), [Some(30), None, Some(10), None]);
    }

    #[test]
    fn foreign_pid_namespaces_show_as_zero_and_are_left_out() {
        assert_eq!(pids(b"12\n0\n345\n").collect::<Vec<_>>(), [12, 345]);
        assert_eq!(pids(b"").count(), 0);
    }

    #[test]
    fn recorded_files_of_real_kernels() {
        let v1 = include_bytes!("../../../fixtures/v1-6.18/memory.stat");
        assert_eq!(flat_keyed(v1, "total_inactive_file"), Some(1_693_286_400));
        assert_eq!(flat_keyed(v1, "inactive_file"), Some(143_360));
    }
}
