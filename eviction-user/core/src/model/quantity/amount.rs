//! The number inside a quantity.
//!
//! Two forms, because the recorded 64-bit results of very large quantities depend on which one the
//! kubelet's parser chose: a 64-bit mantissa with a power of ten, or an unbounded integer.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// Decimal places of the smallest amount, 1n.
const NANO_PLACES: u32 = 9;

/// Powers of ten beyond this are clamped when an amount must be materialised: no real quantity is
/// near, and an exponent of a billion must not take a gigabyte.
const MAX_SCALE: i32 = 1_000;

#[derive(Debug, Clone)]
pub(super) enum Amount {
    /// `mantissa * 10^scale`
    Small { mantissa: i64, scale: i32 },
    /// `unscaled / 10^places`, where places is 9, or 0 for the cap of binary quantities.
    Wide { unscaled: Box<BigInt>, places: u32 },
}

impl Amount {
    /// What `places` of the wide form may be.
    #[cfg(feature = "serde")]
    pub(super) const WIDE_PLACES: [u32; 2] = [0, NANO_PLACES];

    pub(super) const fn integer(value: i64) -> Self {
        Self::Small {
            mantissa: value,
            scale: 0,
        }
    }

    pub(super) fn from_wide_nanos(nanos: BigInt) -> Self {
        Self::Wide {
            unscaled: Box::new(nanos),
            places: NANO_PLACES,
        }
    }

    /// The largest binary quantity the kubelet's parser accepts.
    pub(super) fn binary_cap(negative: bool) -> Self {
        let cap = if negative { -i64::MAX } else { i64::MAX };
        Self::Wide {
            unscaled: Box::new(BigInt::from(cap)),
            places: 0,
        }
    }

    pub(super) fn sign(&self) -> Ordering {
        match self {
            Self::Small { mantissa, .. } => mantissa.cmp(&0),
            Self::Wide { unscaled, .. } => match unscaled.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    /// `value * 10^places` as the kubelet gets it: rounded away from zero, and wrapped or zeroed
    /// where 64 bits do not suffice.
    pub(super) fn scaled(&self, places: i32) -> i64 {
        match self {
            Self::Small { mantissa, scale } => {
                scaled_small(*mantissa, i64::from(*scale) + i64::from(places))
            }
            Self::Wide {
                unscaled,
                places: have,
            } => scaled_wide(unscaled, *have as i32 - places),
        }
    }

    pub(super) fn nanos_saturating(&self) -> i128 {
        if let Self::Small { mantissa, scale } = self
            && let Some(nanos) = small_nanos(*mantissa, *scale)
        {
            return nanos;
        }
        let nanos = self.nanos();
        i128::try_from(&nanos).unwrap_or(match nanos.sign() {
            Sign::Minus => i128::MIN,
            Sign::NoSign | Sign::Plus => i128::MAX,
        })
    }

    pub(super) fn nanos(&self) -> BigInt {
        match self {
            Self::Small { mantissa, scale } => {
                let exponent = (*scale).clamp(-MAX_SCALE, MAX_SCALE) + NANO_PLACES as i32;
                let mantissa = BigInt::from(*mantissa);
                match u32::try_from(exponent) {
                    Ok(exponent) => mantissa * power_of_ten(exponent),
                    // Finer than 1n: rounded away from zero, as parsing does.
                    Err(_) => {
                        divide_away_from_zero(&mantissa, &power_of_ten(exponent.unsigned_abs()))
                    }
                }
            }
            Self::Wide { unscaled, places } => {
                unscaled.as_ref() * power_of_ten(NANO_PLACES - places)
            }
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        if let (
            Self::Small {
                mantissa: a,
                scale: 0,
            },
            Self::Small {
                mantissa: b,
                scale: 0,
            },
        ) = (self, other)
            && let Some(sum) = a.checked_add(*b)
        {
            return Self::integer(sum);
        }
        Self::from_nanos(self.nanos() + other.nanos())
    }

    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Small { mantissa, scale } if *mantissa != i64::MIN => Self::Small {
                mantissa: -mantissa,
                scale: *scale,
            },
            _ => Self::from_nanos(-self.nanos()),
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        if let (
            Self::Small {
                mantissa: a,
                scale: x,
            },
            Self::Small {
                mantissa: b,
                scale: y,
            },
        ) = (self, other)
        {
            if x == y {
                return a.cmp(b);
            }
            if let (Some(a), Some(b)) = (small_nanos(*a, *x), small_nanos(*b, *y)) {
                return a.cmp(&b);
            }
        }
        self.nanos().cmp(&other.nanos())
    }

    fn from_nanos(nanos: BigInt) -> Self {
        let whole = &nanos / power_of_ten(NANO_PLACES);
        if &whole * power_of_ten(NANO_PLACES) == nanos
            && let Ok(mantissa) = i64::try_from(&whole)
        {
            return Self::integer(mantissa);
        }
        match i64::try_from(&nanos) {
            Ok(mantissa) => Self::Small {
                mantissa,
                scale: -(NANO_PLACES as i32),
            },
            Err(_) => Self::from_wide_nanos(nanos),
        }
    }
}

pub(super) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

pub(super) fn divide_away_from_zero(value: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = value / divisor;
    if &quotient * divisor == *value {
        return quotient;
    }
    match value.sign() {
        Sign::Minus => quotient - 1,
        Sign::NoSign | Sign::Plus => quotient + 1,
    }
}

/// Nanos of a small amount when they fit and are exact.
fn small_nanos(mantissa: i64, scale: i32) -> Option<i128> {
    let exponent = u32::try_from(scale.checked_add(NANO_PLACES as i32)?).ok()?;
    10i128
        .checked_pow(exponent)?
        .checked_mul(i128::from(mantissa))
}

/// `mantissa * 10^exponent`, away from zero when digits are lost. What does not fit wraps for the
/// exponents that the kubelet multiplies in one step, and is zero for those it reaches in a loop.
fn scaled_small(mantissa: i64, exponent: i64) -> i64 {
    if mantissa == 0 {
        return 0;
    }
    let power = u32::try_from(exponent.unsigned_abs())
        .ok()
        .and_then(|exponent| 10i64.checked_pow(exponent));
    match (exponent >= 0, power) {
        (true, Some(power)) if matches!(exponent, 0..=3 | 6 | 9) => mantissa.wrapping_mul(power),
        (true, Some(power)) => mantissa.checked_mul(power).unwrap_or(0),
        (true, None) => 0,
        (false, Some(power)) => {
            let quotient = mantissa / power;
            if mantissa % power == 0 {
                quotient
            } else {
                quotient + mantissa.signum()
            }
        }
        (false, None) => mantissa.signum(),
    }
}

/// `unscaled / 10^drop`, wrapped to 64 bits. Wherever digits are lost the result is raised by one,
/// also for negative amounts, and amounts below the positive 64-bit bound are cut before dividing:
/// both recorded (`-59Pi` has the value -4035225265).
fn scaled_wide(unscaled: &BigInt, drop: i32) -> i64 {
    let Ok(drop) = u32::try_from(drop) else {
        let power = 10i64.wrapping_pow(drop.unsigned_abs());
        return low_64_bits(unscaled).wrapping_mul(power);
    };
    if drop == 0 {
        return low_64_bits(unscaled);
    }
    match 10i64.checked_pow(drop) {
        Some(divisor) if *unscaled < BigInt::from(i64::MAX) => {
            let cut = low_64_bits(unscaled);
            cut / divisor + i64::from(cut % divisor != 0)
        }
        _ => {
            let divisor = power_of_ten(drop);
            let quotient = unscaled / &divisor;
            let lossy = &quotient * &divisor != *unscaled;
            low_64_bits(&quotient).wrapping_add(i64::from(lossy))
        }
    }
}

fn low_64_bits(value: &BigInt) -> i64 {
    let magnitude = value.iter_u64_digits().next().unwrap_or(0).cast_signed();
    match value.sign() {
        Sign::Minus => magnitude.wrapping_neg(),
        Sign::NoSign | Sign::Plus => magnitude,
    }
}
