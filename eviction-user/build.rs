//! Builds the eBPF object with aya-build, or puts an empty one in its place when `EVICTION_SKIP_EBPF=1`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const SKIP: &str = "EVICTION_SKIP_EBPF";
const CACHE: &str = "EVICTION_CACHE";
const PACKAGE: &str = "eviction-ebpf";
const LINKER: &str = "tools/bpf-linker-0.13.0/bin";
const FIX: &str =
    "run `cargo xtask setup` once, or set EVICTION_SKIP_EBPF=1 to build without the eBPF programs";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(ebpf_built)");
    for name in [SKIP, CACHE, "RUSTUP_TOOLCHAIN"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(error) = build() {
        println!("cargo::error={error}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let object = PathBuf::from(variable("OUT_DIR")?).join(PACKAGE);
    if env::var_os(SKIP).is_some_and(|value| value == "1") {
        return fs::write(&object, [])
            .map_err(|error| format!("cannot write {}: {error}", object.display()));
    }
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")?)
        .join("..")
        .join(PACKAGE);
    find_linker()?;
    let toolchain = find_library_source()?;
    // SAFETY: a build script has one thread here. `build-std` is open to stable compilers only with this, and an inherited
    // CARGO_ENCODED_RUSTFLAGS would beat the flags that aya-build sets.
    unsafe {
        env::set_var("RUSTC_BOOTSTRAP", "1");
        env::remove_var("CARGO_ENCODED_RUSTFLAGS");
    }
    let root_dir = source
        .to_str()
        .ok_or("the path of the eBPF package is not UTF-8: move the tree")?;
    let package = aya_build::Package {
        name: PACKAGE,
        root_dir,
        ..aya_build::Package::default()
    };
    aya_build::build_ebpf([package], aya_build::Toolchain::Custom(&toolchain)).map_err(
        |error| {
            format!("the eBPF programs do not build: {error:#} (the compiler's words are above)")
        },
    )?;
    println!("cargo::rustc-cfg=ebpf_built");
    Ok(())
}

/// Puts the cached bpf-linker first on `PATH`; another one that is already there will do, too.
fn find_linker() -> Result<(), String> {
    let cache = match env::var_os(CACHE) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(variable("HOME")?).join(".cache/eviction"),
    };
    let directory = cache.join(LINKER);
    println!(
        "cargo::rerun-if-changed={}",
        directory.join("bpf-linker").display()
    );
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    directories.insert(0, directory.clone());
    if !directories
        .iter()
        .any(|place| place.join("bpf-linker").is_file())
    {
        return Err(format!(
            "bpf-linker is neither in {} nor on PATH: {FIX}",
            directory.display()
        ));
    }
    let path = env::join_paths(directories)
        .map_err(|error| format!("PATH cannot be extended: {error}"))?;
    // SAFETY: a build script has one thread here.
    unsafe { env::set_var("PATH", path) };
    Ok(())
}

/// The toolchain that compiles us, by rustup's name, once it is clear that it has the library source that `build-std` needs.
fn find_library_source() -> Result<String, String> {
    let rustc = variable("RUSTC")?;
    let output = Command::new(&rustc)
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| format!("cannot run {rustc}: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let library = sysroot.join("lib/rustlib/src/rust/library/core");
    if !library.is_dir() {
        return Err(format!(
            "the library source of this rustc is missing ({}): {FIX}",
            library.display()
        ));
    }
    match env::var("RUSTUP_TOOLCHAIN") {
        Ok(name) => Ok(name),
        // Without rustup aya-build runs plain `cargo`, and with it a sysroot's directory name is the toolchain's name.
        Err(_) => Ok(sysroot.file_name().map_or_else(
            || "stable".into(),
            |name| name.to_string_lossy().into_owned(),
        )),
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}: {FIX}"))
}
