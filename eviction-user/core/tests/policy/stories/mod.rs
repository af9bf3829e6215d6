mod additions;
mod disk;
mod engine;
mod figures;
mod grace;
mod local_limits;
mod records;
mod victims;
