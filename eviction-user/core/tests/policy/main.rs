//! Stories and laws of the policy, told through its public functions.
//!
//! `stories` carry the number of the user case they tell, where they have one; `properties` hold
//! for any input.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps in a helper fails as it should"
)]

mod fixture;
mod properties;
mod stories;
