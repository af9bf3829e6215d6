//! What the API server's answers to an eviction mean. Pure.

use crate::ports::Refusal;
use kube::core::Status;
use std::time::Duration;

/// Before that a pod is not asked for again, where the server does not say when: an exhausted budget comes without a Retry-After.
const OWN_CLOCK: Duration = Duration::from_secs(10);
/// The same of what somebody has to put right first.
const LONG: Duration = Duration::from_secs(60);
/// The same of any pod, where the server does not answer.
const AWAY: Duration = Duration::from_secs(5);
/// The cause by which a server names an exhausted budget (`policy/v1`, `DisruptionBudgetCause`).
const BUDGET: &str = "DisruptionBudget";

/// What an answer to one request says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Granted,
    Refused(Refusal),
    /// The pod itself shows it: it may be gone, or be leaving. If it stays, these words are why.
    Unclear(String),
}

/// What has come of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answered {
    /// It is leaving.
    Granted,
    /// It has left already: nothing was granted.
    Gone,
    Refused(Refusal),
    /// The server does not answer, for this reason.
    Away(String),
}

/// `retry_after`: seconds, from the header.
pub(super) fn said(code: u16, retry_after: Option<u64>, body: &[u8]) -> Said {
    if (200..300).contains(&code) {
        return Said::Granted;
    }
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let words = words(code, &status, body);
    let details = status.details.as_ref();
    let by_details = details.map(|details| u64::from(details.retry_after_seconds));
    let by_details = by_details.filter(|seconds| *seconds > 0);
    let told = retry_after.or(by_details).map(Duration::from_secs);
    let refused = |reason: String, again: Duration, is_for_all: bool| {
        Said::Refused(Refusal {
            reason,
            again: told.unwrap_or(again),
            is_for_all,
        })
    };
    match code {
        // Gone; or another pod has its name. Or something else is not there, or in conflict.
        404 | 409 => Said::Unclear(words),
        429 => {
            let mut causes = details.into_iter().flat_map(|details| &details.causes);
            let is_of_budget = causes.any(|cause| cause.reason == BUDGET);
            refused(words, OWN_CLOCK, !is_of_budget)
        }
        403 if words.contains("pods/eviction") => refused(
            format!(
                "the right to create pods/eviction is missing (the chart grants it with evictionSoft or hardPolicy): {words}"
            ),
            LONG,
            false,
        ),
        500 if words.contains("more than one PodDisruptionBudget") => refused(
            format!(
                "two or more PodDisruptionBudgets select this pod, and then the API server evicts it never: let only one select it: {words}"
            ),
            LONG,
            false,
        ),
        // Conflicts over the budget.
        504 if told.is_some() => refused(words, OWN_CLOCK, false),
        500.. => Said::Unclear(words),
        _ => refused(words, LONG, false),
    }
}

/// The server's, with what it adds on budgets.
fn words(code: u16, status: &Status, body: &[u8]) -> String {
    let mut words = format!("the API server answers {code}");
    let message = match status.message.as_str() {
        // Not every server in between speaks in objects.
        "" => String::from_utf8_lossy(body).trim().to_owned(),
        message => message.to_owned(),
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes = causes.map(|cause| cause.message.as_str());
    let mut all: Vec<&str> = vec![&message];
    all.extend(causes);
    all.retain(|part| !part.is_empty());
    if !all.is_empty() {
        words.push_str(": ");
        words.push_str(&all.join(" "));
    }
    words
}

/// The pod is there and is not leaving, though it may have been asked for.
pub(super) fn stays(why: &str) -> Answered {
    Answered::Refused(Refusal {
        reason: format!("{why}; the pod stays"),
        again: OWN_CLOCK,
        is_for_all: false,
    })
}

/// Nobody can be asked for just now.
pub(super) fn away(why: String) -> Refusal {
    Refusal {
        reason: why,
        again: AWAY,
        is_for_all: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn refusal(code: u16, header: Option<u64>, body: &Value) -> Refusal {
        match said(code, header, body.to_string().as_bytes()) {
            Said::Refused(refusal) => refusal,
            other => panic!("{code}: {other:?}"),
        }
    }

    fn budget(seconds: u32) -> Value {
        json!({
            "kind": "Status",
            "status": "Failure",
            "code": 429,
            "reason": "TooManyRequests",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"retryAfterSeconds": seconds, "causes": [{
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
            }]},
        })
    }

    /// User case 49.
    #[test]
    fn case_49_an_exhausted_budget_is_about_one_pod_and_comes_back_by_our_clock_or_the_servers() {
        let own = refusal(429, None, &budget(0));
        assert_eq!((own.again, own.is_for_all), (OWN_CLOCK, false));
        assert!(own.reason.contains("would violate"), "{}", own.reason);
        assert!(own.reason.contains("budget web needs 1"), "{}", own.reason);
        let told = refusal(429, None, &budget(25));
        assert_eq!(told.again, Duration::from_secs(25));
        let header = refusal(429, Some(7), &budget(25));
        assert_eq!(header.again, Duration::from_secs(7));
        let two = json!({"message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."});
        let two = refusal(500, None, &two);
        assert!(two.reason.contains("let only one select it"), "{two:?}");
        assert!(!two.is_for_all);
    }

    #[test]
    fn a_server_that_has_too_much_to_do_is_in_nobodys_favour() {
        let text = b"Too many requests, please try again later.\n";
        let Said::Refused(busy) = said(429, Some(1), text) else {
            panic!("not refused");
        };
        assert_eq!(
            (busy.again, busy.is_for_all),
            (Duration::from_secs(1), true)
        );
        assert!(busy.reason.ends_with("try again later."), "{busy:?}");
    }

    #[test]
    fn what_may_be_gone_or_granted_is_looked_up() {
        assert_eq!(said(201, None, b""), Said::Granted);
        for code in [404, 409, 500, 502, 503, 504] {
            let said = said(code, None, br#"{"message": "who knows"}"#);
            let words = format!("the API server answers {code}: who knows");
            assert_eq!(said, Said::Unclear(words));
        }
        let conflicts = json!({"message": "couldn't update", "details": {"retryAfterSeconds": 10}});
        assert_eq!(
            refusal(504, None, &conflicts).again,
            Duration::from_secs(10)
        );
    }

    #[test]
    fn a_missing_right_is_named_and_a_veto_is_told_in_its_own_words() {
        let rbac = json!({"message": "pods \"a\" is forbidden: User \"u\" cannot create resource \"pods/eviction\""});
        let missing = refusal(403, None, &rbac);
        assert!(
            missing
                .reason
                .starts_with("the right to create pods/eviction is missing")
        );
        let veto = json!({"message": "admission webhook \"w\" denied the request: no"});
        let veto = refusal(403, None, &veto);
        assert!(!veto.reason.contains("missing"), "{veto:?}");
        assert!(veto.reason.contains("denied the request: no"), "{veto:?}");
        assert!(!refusal(422, None, &json!({"message": "x"})).is_for_all);
    }
}
