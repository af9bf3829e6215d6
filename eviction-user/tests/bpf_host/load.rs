//! The load: this binary once more, in a cgroup, doing what it reads from its standard input.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
};

use libtest_mimic::Failed;

const CHILD: &str = "EVICTION_TEST_LOAD";
const PAGE: usize = 4096;

/// The child's side: one command per line, one answer each.
pub(crate) fn run_if_child() -> Option<ExitCode> {
    std::env::var_os(CHILD)?;
    let mut kept = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let done = match words.as_slice() {
            ["touch", mib] => mib
                .parse()
                .map(|mib: usize| kept.push(touched(mib << 20)))
                .is_ok(),
            ["write", path, mib] => mib.parse().is_ok_and(|mib| written(path, mib).is_ok()),
            ["threads", count] => count.parse().is_ok_and(threads),
            ["processes", count] => count.parse().is_ok_and(processes),
            ["create", directory, from, count] => create(Path::new(directory), from, count),
            _ => false,
        };
        println!("{}", if done { "done" } else { "failed" });
    }
    Some(ExitCode::SUCCESS)
}

/// Every page is written, so that every page is charged.
fn touched(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    memory
}

/// Through one small buffer, so that only the page cache grows.
fn written(path: &str, mib: usize) -> std::io::Result<()> {
    let buffer = [1; 16 * PAGE];
    let mut file = fs::File::create(path)?;
    (0..mib * 16).try_for_each(|_| file.write_all(&buffer))
}

/// One after another, so that no limit on tasks is in the way.
fn threads(count: u32) -> bool {
    (0..count).all(|_| std::thread::spawn(|| ()).join().is_ok())
}

/// Each ends at once: its standard input is empty.
fn processes(count: u32) -> bool {
    (0..count).all(|_| {
        Command::new("/proc/self/exe")
            .stdin(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

fn create(directory: &Path, from: &str, count: &str) -> bool {
    let (Ok(from), Ok(count)) = (from.parse::<u32>(), count.parse::<u32>()) else {
        return false;
    };
    (from..from + count).all(|number| fs::File::create(directory.join(number.to_string())).is_ok())
}

/// The parent's side.
pub(crate) struct Load {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Load {
    /// Starts it and moves it into the cgroup before it does anything.
    pub(crate) fn start(cgroup: &Path) -> Result<Self, Failed> {
        let mut command = Command::new("/proc/self/exe");
        let mut child = command
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no stdin")?;
        let output = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        fs::write(cgroup.join("cgroup.procs"), child.id().to_string())?;
        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// Moves it into the cgroup and lets it make files there, with numbers from `from` on as names.
    pub(crate) fn make_files_in(
        &mut self,
        cgroup: &Path,
        directory: &Path,
        from: u32,
        count: u32,
    ) -> Result<(), Failed> {
        fs::write(cgroup.join("cgroup.procs"), self.id().to_string())?;
        self.command(&format!("create {} {from} {count}", directory.display()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn command(&mut self, line: &str) -> Result<(), Failed> {
        writeln!(self.input, "{line}")?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        if answer.trim() == "done" {
            Ok(())
        } else {
            Err(format!("{line}: {answer}").into())
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Only this child; that it is gone already is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
