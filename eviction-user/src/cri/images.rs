//! Which images nobody needs. Runtimes do not tell when an image came or was last used, so that is remembered here, as the kubelet
//! does it: by looking now and then.

use super::messages::Image;
use crate::model::Timestamp;
use crate::sys::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The images by their ids, as they were seen.
#[derive(Debug, Default)]
pub(super) struct ImageTimes {
    times: BTreeMap<String, Times>,
    /// They have been seen once.
    has_begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Times {
    /// `None`: not since we are here.
    last_used: Option<Timestamp>,
    /// `None`: it was there when we came, so nobody knows how long it has been: as for the kubelet it is old enough.
    first_seen: Option<Timestamp>,
}

impl ImageTimes {
    /// `used`: any of their names.
    pub(super) fn note(&mut self, images: &[Image], used: &BTreeSet<String>, now: Timestamp) {
        let came = self.has_begun.then_some(now);
        let before = std::mem::take(&mut self.times);
        self.has_begun = true;
        self.times = images
            .iter()
            .map(|image| {
                let new = Times {
                    last_used: None,
                    first_seen: came,
                };
                let mut times = before.get(&image.id).copied().unwrap_or(new);
                if is_used(image, used) {
                    times.last_used = Some(now);
                }
                (image.id.clone(), times)
            })
            .collect();
    }

    /// Those to remove: what was used longest ago first.
    pub(super) fn unused(
        &self,
        images: &[Image],
        used: &BTreeSet<String>,
        minimum_age: Duration,
        now: Timestamp,
    ) -> Vec<Image> {
        let is_young = |image: &Image| {
            let came = self
                .times
                .get(&image.id)
                .map_or(Some(now), |times| times.first_seen);
            came.is_some_and(|came| clock::between(came, now) < minimum_age)
        };
        let mut unused: Vec<_> = images
            .iter()
            .filter(|image| !image.pinned && !is_used(image, used) && !is_young(image))
            .cloned()
            .collect();
        unused.sort_by_key(|image| self.times.get(&image.id).copied());
        unused
    }
}

fn is_used(image: &Image, used: &BTreeSet<String>) -> bool {
    let names = image.tags.iter().chain(&image.digests);
    names.chain([&image.id]).any(|name| used.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn image(id: &str) -> Image {
        Image {
            id: id.into(),
            tags: vec![format!("{id}:1")],
            digests: vec![format!("{id}@sha256:0")],
            size: 1,
            pinned: false,
        }
    }

    fn used(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn ids(images: Vec<Image>) -> Vec<String> {
        images.into_iter().map(|image| image.id).collect()
    }

    #[test]
    fn case_36_an_image_that_is_used_by_any_of_its_names_or_pinned_stays() {
        let mut times = ImageTimes::default();
        let mut pinned = image("pinned");
        pinned.pinned = true;
        let images = [image("a"), image("b"), image("c"), pinned, image("free")];
        let used = used(&["a", "b:1", "c@sha256:0"]);
        let now = Timestamp::from_secs(1);
        times.note(&images, &used, now);
        assert_eq!(ids(times.unused(&images, &used, MINUTE, now)), ["free"]);
    }

    #[test]
    fn what_has_just_come_stays_for_its_minimum_age_and_what_was_there_is_old_enough() {
        let mut times = ImageTimes::default();
        let nobody = used(&[]);
        let at = Timestamp::from_secs;
        times.note(&[image("old")], &nobody, at(0));
        let images = [image("new"), image("old")];
        // Not looked at since it came.
        assert_eq!(ids(times.unused(&images, &nobody, MINUTE, at(9))), ["old"]);
        times.note(&images, &nobody, at(10));
        assert_eq!(ids(times.unused(&images, &nobody, MINUTE, at(69))), ["old"]);
        assert_eq!(
            ids(times.unused(&images, &nobody, MINUTE, at(70))),
            ["old", "new"]
        );
        // Gone and here again: it is new.
        times.note(&[image("new")], &nobody, at(80));
        times.note(&images, &nobody, at(90));
        assert_eq!(
            ids(times.unused(&images, &nobody, MINUTE, at(100))),
            ["new"]
        );
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut times = ImageTimes::default();
        let images = [image("a"), image("b"), image("c")];
        for (second, names) in [(1, &["a", "b"][..]), (2, &["a"])] {
            times.note(&images, &used(names), Timestamp::from_secs(second));
        }
        let now = Timestamp::from_secs(3);
        let unused = times.unused(&images, &used(&[]), MINUTE, now);
        assert_eq!(ids(unused), ["c", "b", "a"]);
    }
}
