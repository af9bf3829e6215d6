//! Choosing among the versions an archive offers.

/// Numbers of a version, and whether it is a backport (`~`): enough to sort the versions of one package.
fn key(version: &str) -> (Vec<u64>, bool) {
    let main = version.split(['~', '+']).next().unwrap_or(version);
    let numbers = main
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    (numbers, !version.contains('~'))
}

/// `6.12` of `6.12.118-1` as one number, to measure how far two series are apart.
fn series(version: &str) -> Option<u64> {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u64>);
    Some(numbers.next()?.ok()? * 1_000 + numbers.next()?.ok()?)
}

/// What `choose` found: the series asked for, or the nearest one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    Exact(&'a str, &'a str),
    Nearest(&'a str, &'a str),
    Nothing,
}

/// The newest version of series `wanted`; when the archive has moved on, the newest of the nearest series.
pub(super) fn choose<'a>(packages: &'a [(String, String)], wanted: &str) -> Choice<'a> {
    let Some(goal) = series(wanted) else {
        return Choice::Nothing;
    };
    let best = packages
        .iter()
        .filter_map(|(package, version)| Some((series(version)?.abs_diff(goal), package, version)))
        .min_by(|(a_far, a_name, a), (b_far, b_name, b)| {
            (a_far, key(b), a_name).cmp(&(b_far, key(a), b_name))
        });
    match best {
        Some((0, package, version)) => Choice::Exact(package, version),
        Some((_, package, version)) => Choice::Nearest(package, version),
        None => Choice::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(versions: &[&str]) -> Vec<(String, String)> {
        versions
            .iter()
            .map(|version| (format!("linux-{version}"), (*version).to_owned()))
            .collect()
    }

    #[test]
    fn the_newest_of_the_series_is_taken() {
        let packages = offered(&[
            "6.1.176-1",
            "6.12.9-1",
            "6.12.118-1",
            "6.12.117-1~deb12u1",
            "7.3.4-1~bpo13+1",
        ]);
        assert_eq!(
            choose(&packages, "6.12"),
            Choice::Exact("linux-6.12.118-1", "6.12.118-1")
        );
        assert_eq!(
            choose(&packages, "7.3"),
            Choice::Exact("linux-7.3.4-1~bpo13+1", "7.3.4-1~bpo13+1")
        );
        assert_eq!(
            choose(&packages, "6.1"),
            Choice::Exact("linux-6.1.176-1", "6.1.176-1")
        );
    }

    #[test]
    fn a_suites_own_version_wins_over_the_same_one_as_a_backport() {
        let packages = offered(&["6.12.118-1~deb12u1", "6.12.118-1"]);
        assert_eq!(
            choose(&packages, "6.12"),
            Choice::Exact("linux-6.12.118-1", "6.12.118-1")
        );
    }

    #[test]
    fn when_the_suite_moved_on_the_nearest_series_is_taken() {
        let packages = offered(&["6.12.118-1", "7.4.1-1", "7.6.2-1"]);
        assert_eq!(
            choose(&packages, "7.3"),
            Choice::Nearest("linux-7.4.1-1", "7.4.1-1")
        );
        assert_eq!(choose(&[], "7.3"), Choice::Nothing);
    }
}
