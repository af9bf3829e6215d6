mod engine;
mod generate;
mod ranking;
mod texts;
