//! Suite `chart`: the Helm chart, read by the real helm: what it renders, what it refuses, and that the manifests for kustomize
//! say the same.

mod arguments;
mod effects;
mod kustomize;
mod operation;
mod refused;
mod rendered;
mod rights;
mod values;

use std::process::ExitCode;

use eviction_tests::suite::{self, Case};

fn main() -> ExitCode {
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(values::cases());
    cases.extend(refused::cases());
    cases.extend(effects::cases());
    cases.extend(rights::cases());
    cases.extend(operation::cases());
    cases.extend(kustomize::cases());
    cases.extend(arguments::cases());
    suite::main(cases)
}
