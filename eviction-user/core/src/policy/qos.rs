//! Quality-of-service classes; only admission looks at them.

use crate::model::{Pod, QosClass, Quantity, ResourceList};

/// Whether the pod counts as best effort: by its status if that is set, else computed.
pub fn is_best_effort(pod: &Pod) -> bool {
    effective(pod) == QosClass::BestEffort.name()
}

/// The class by name, because a status may say anything.
pub fn effective(pod: &Pod) -> &str {
    match pod.status_qos_class.as_deref() {
        Some(class) if !class.is_empty() => class,
        _ => computed(pod).name(),
    }
}

/// The class that the spec amounts to. Only cpu and memory count, and only above zero.
pub fn computed(pod: &Pod) -> QosClass {
    let mut requests = Totals::default();
    let mut limits = Totals::default();
    let mut all_limited = true;
    if let Some(resources) = &pod.resources {
        requests.add(&resources.requests);
        limits.add(&resources.limits);
        all_limited = limits.has_both();
    } else {
        for container in pod.containers.iter().chain(&pod.init_containers) {
            requests.add(&container.resources.requests);
            limits.add(&container.resources.limits);
            let mut own = Totals::default();
            own.add(&container.resources.limits);
            all_limited &= own.has_both();
        }
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if all_limited && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// Sums of cpu and memory; absent where nothing above zero was named.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

impl Totals {
    fn add(&mut self, list: &ResourceList) {
        add(&mut self.cpu, list.cpu.as_ref());
        add(&mut self.memory, list.memory.as_ref());
    }

    const fn has_both(&self) -> bool {
        self.cpu.is_some() && self.memory.is_some()
    }

    const fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none()
    }
}

fn add(total: &mut Option<Quantity>, amount: Option<&Quantity>) {
    let Some(amount) = amount.filter(|amount| amount.sign().is_gt()) else {
        return;
    };
    *total = Some(match total.take() {
        Some(total) => total.plus(amount),
        None => amount.clone(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Container, Resources, Uid};

    fn container(cpu_and_memory: Option<i64>) -> Container {
        let amount = cpu_and_memory.map(Quantity::decimal);
        let list = ResourceList {
            cpu: amount.clone(),
            memory: amount,
            ..ResourceList::default()
        };
        let resources = Resources {
            requests: list.clone(),
            limits: list,
        };
        Container {
            resources,
            ..Container::default()
        }
    }

    #[test]
    fn one_container_without_limits_makes_a_pod_burstable_although_the_sums_agree() {
        let pod = |containers| Pod {
            containers,
            ..Pod::new(Uid::new("a"), "default", "a")
        };
        assert_eq!(
            computed(&pod(vec![container(Some(1))])),
            QosClass::Guaranteed
        );
        assert_eq!(
            computed(&pod(vec![container(Some(1)), container(None)])),
            QosClass::Burstable
        );
        assert_eq!(computed(&pod(vec![container(None)])), QosClass::BestEffort);
    }
}
