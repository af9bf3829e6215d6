//! One function per hook: take the arguments, say what is being used up, and spend it.

mod charge;
mod inode;
