mod additions;
mod disk;
mod engine;
mod figures;
mod records;
mod victims;
