//! The pure core: data model and policy. No I/O, clock, async or logging.
