//! Which containers and sandboxes are dead and of no use any more: the kubelet's rule for its garbage collection under disk pressure
//! (`DeleteAllUnusedContainers`). Pure.

use super::messages::{CONTAINER_EXITED, Container, PodSandbox, SANDBOX_READY};
use crate::ports::PodFate;
use std::collections::BTreeMap;

/// The kubelet labels all that it makes; what has no such label is somebody else's.
const POD_UID: &str = "io.kubernetes.pod.uid";

fn pod(labels: &BTreeMap<String, String>) -> Option<&str> {
    labels.get(POD_UID).map(String::as_str)
}

/// Has the pod ended for good? How its containers ended must have been written down first: the kubelet tells it of what the runtime
/// still has, and a Job whose container is gone has failed.
fn is_over(
    uid: &str,
    containers: &[Container],
    sandboxes: &[PodSandbox],
    fate: &dyn Fn(&str) -> PodFate,
) -> bool {
    let stands = sandboxes
        .iter()
        .any(|one| pod(&one.labels) == Some(uid) && one.state == SANDBOX_READY);
    let runs = containers
        .iter()
        .any(|one| pod(&one.labels) == Some(uid) && one.state != CONTAINER_EXITED);
    !stands && !runs && fate(uid) == PodFate::Over
}

/// All of pods that are over; of others what has a later dead one of the same name: the last one's logs are asked for
/// (`kubectl logs --previous`), and what it ended with is the pod's status.
pub(super) fn dead_containers(
    containers: &[Container],
    sandboxes: &[PodSandbox],
    fate: &dyn Fn(&str) -> PodFate,
) -> Vec<Container> {
    let is_useless = |one: &&Container| {
        let Some(uid) = pod(&one.labels).filter(|_| one.state == CONTAINER_EXITED) else {
            return false;
        };
        let is_later = |other: &Container| {
            other.state == CONTAINER_EXITED
                && pod(&other.labels) == Some(uid)
                && name(other) == name(one)
                && age(other) > age(one)
        };
        containers.iter().any(is_later) || is_over(uid, containers, sandboxes, fate)
    };
    containers.iter().filter(is_useless).cloned().collect()
}

fn name(container: &Container) -> Option<&str> {
    container.metadata.as_ref().map(|data| data.name.as_str())
}

fn age(container: &Container) -> (i64, &str) {
    (container.created_at, &container.id)
}

/// Without a container, of pods that are over; of others all but the last one, which tells the kubelet what it had.
pub(super) fn dead_sandboxes(
    containers: &[Container],
    sandboxes: &[PodSandbox],
    fate: &dyn Fn(&str) -> PodFate,
) -> Vec<PodSandbox> {
    let is_useless = |one: &&PodSandbox| {
        let Some(uid) = pod(&one.labels).filter(|_| one.state != SANDBOX_READY) else {
            return false;
        };
        let is_later = |other: &PodSandbox| {
            pod(&other.labels) == Some(uid)
                && (other.created_at, &other.id) > (one.created_at, &one.id)
        };
        let is_empty = !containers.iter().any(|other| other.sandbox == one.id);
        is_empty && (sandboxes.iter().any(is_later) || is_over(uid, containers, sandboxes, fate))
    };
    sandboxes.iter().filter(is_useless).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::messages::ContainerMetadata;

    const RUNNING: i32 = 1;
    const NOT_READY: i32 = 1;

    fn labels(uid: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(POD_UID.to_owned(), uid.to_owned())])
    }

    /// Its pod, its id and when it was made.
    fn container(uid: &str, id: &str, created_at: i64, state: i32) -> Container {
        let metadata = ContainerMetadata { name: "c".into() };
        Container {
            id: id.into(),
            sandbox: format!("sandbox-of-{uid}"),
            metadata: Some(metadata),
            state,
            created_at,
            labels: labels(uid),
            ..Container::default()
        }
    }

    fn sandbox(uid: &str, state: i32) -> PodSandbox {
        PodSandbox {
            id: format!("sandbox-of-{uid}"),
            state,
            created_at: 1,
            labels: labels(uid),
        }
    }

    fn fate(uid: &str) -> PodFate {
        match uid {
            "over" => PodFate::Over,
            "alive" => PodFate::Alive,
            _ => PodFate::Unknown,
        }
    }

    fn dead(containers: &[Container], sandboxes: &[PodSandbox]) -> Vec<String> {
        let dead = dead_containers(containers, sandboxes, &fate);
        dead.into_iter().map(|one| one.id).collect()
    }

    #[test]
    fn of_a_pod_that_is_over_all_goes_and_of_one_that_is_not_the_last_of_each_name_stays() {
        for (uid, expected) in [
            ("over", &["1", "2"][..]),
            ("alive", &["1"]),
            ("unknown", &["1"]),
        ] {
            let containers = [
                container(uid, "1", 1, CONTAINER_EXITED),
                container(uid, "2", 2, CONTAINER_EXITED),
            ];
            let sandboxes = [sandbox(uid, NOT_READY)];
            assert_eq!(dead(&containers, &sandboxes), expected, "{uid}");
        }
        let mut other = container("alive", "2", 2, CONTAINER_EXITED);
        other.metadata = None;
        let containers = [container("alive", "1", 1, CONTAINER_EXITED), other];
        assert_eq!(dead(&containers, &[]), [""; 0], "of another name");
    }

    #[test]
    fn nothing_that_runs_and_nothing_of_a_pod_that_still_stands_goes_whatever_the_api_says() {
        let exited = container("over", "1", 1, CONTAINER_EXITED);
        assert_eq!(
            dead(
                std::slice::from_ref(&exited),
                &[sandbox("over", SANDBOX_READY)]
            ),
            [""; 0]
        );
        let running = container("over", "2", 2, RUNNING);
        let both = [exited, running];
        assert_eq!(dead(&both, &[sandbox("over", NOT_READY)]), [""; 0]);
        assert_eq!(
            dead_sandboxes(&both, &[sandbox("over", NOT_READY)], &fate),
            []
        );
    }

    #[test]
    fn what_the_kubelet_has_not_made_is_left_alone() {
        let mut container = container("over", "1", 1, CONTAINER_EXITED);
        let mut box_of_it = sandbox("over", NOT_READY);
        container.labels.clear();
        box_of_it.labels.clear();
        assert_eq!(
            dead(&[container], std::slice::from_ref(&box_of_it)),
            [""; 0]
        );
        assert_eq!(dead_sandboxes(&[], &[box_of_it], &fate), []);
    }

    #[test]
    fn an_empty_sandbox_goes_with_its_pod_or_when_there_is_a_later_one() {
        let old = sandbox("over", NOT_READY);
        let held = container("over", "1", 1, RUNNING);
        let dead = |containers: &[Container], sandboxes: &[PodSandbox]| {
            dead_sandboxes(containers, sandboxes, &fate).len()
        };
        assert_eq!(dead(&[], std::slice::from_ref(&old)), 1);
        assert_eq!(dead(&[held], &[old]), 0);
        let old = sandbox("alive", NOT_READY);
        assert_eq!(dead(&[], std::slice::from_ref(&old)), 0, "the last one");
        let new = PodSandbox {
            id: "new".into(),
            created_at: 2,
            ..sandbox("alive", SANDBOX_READY)
        };
        assert_eq!(dead(&[], &[old, new]), 1);
    }
}
