mod additions;
mod disk;
mod engine;
mod figures;
mod local_limits;
mod records;
mod victims;
