//! One question to a server of metrics and probes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// The media type, status and body of an answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub media_type: String,
    pub body: String,
}

/// HTTP 1.0, so that the end of the connection is that of the answer.
pub fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no head")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let media_type = lines
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        .map(|(_, value)| value.to_owned())
        .next();
    Ok(Answer {
        status,
        media_type: media_type.unwrap_or_default(),
        body: body.to_owned(),
    })
}
