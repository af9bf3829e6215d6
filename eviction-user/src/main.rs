//! `eviction`: see `cli`.

fn main() -> eviction_user::cli::Exit {
    eviction_user::cli::main()
}
