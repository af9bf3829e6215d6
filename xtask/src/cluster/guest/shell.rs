//! A shell in the guest, over the network that only this machine reaches.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// For a script that hangs, far longer than any takes.
const PATIENCE: Duration = Duration::from_secs(120);
const CODE: &str = "\neviction-exit ";

pub(super) fn ask(shell: SocketAddr, script: &str) -> Result<String> {
    let said = exchange(shell, script).context("the guest's shell does not answer")?;
    let (output, code) = said
        .rsplit_once(CODE)
        .with_context(|| format!("the guest's shell was cut short after {said:?}"))?;
    let code = code.trim();
    ensure!(code == "0", "`{script}` ended with {code}: {output}");
    Ok(output.to_owned())
}

fn exchange(shell: SocketAddr, script: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&shell, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let code = CODE.trim();
    let whole = format!("(\n{script}\n) </dev/null 2>&1\nprintf '\\n{code} %s' $?\nexit\n");
    stream.write_all(whole.as_bytes())?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    /// A shell that serves one connection, as the guest's does.
    fn served(script: &str) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            let input = Stdio::from(std::os::fd::OwnedFd::from(stream.try_clone().unwrap()));
            let output = Stdio::from(std::os::fd::OwnedFd::from(stream));
            Command::new("sh")
                .stdin(input)
                .stdout(output)
                .status()
                .unwrap();
        });
        let said = ask(address, script);
        server.join().unwrap();
        said
    }

    #[test]
    fn what_a_script_prints_comes_back() {
        assert_eq!(served("echo one; echo two >&2; cat").unwrap(), "one\ntwo\n");
        assert_eq!(served("printf 'no end'").unwrap(), "no end");
    }

    #[test]
    fn a_script_that_fails_is_an_error_that_tells_what_it_said() {
        let error = served("echo oh no; exit 3").unwrap_err().to_string();
        assert!(error.contains("ended with 3: oh no"), "{error}");
    }
}
