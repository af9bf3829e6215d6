//! `eviction run --metrics ADDR`.

use super::Failure;
use crate::model::Signal;
use crate::telemetry::http::Server;
use crate::telemetry::journal::ChannelJournal;
use crate::telemetry::metrics::{self, Check, Vitals};
use clap::Args;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// Serve over HTTP at this address, such as 127.0.0.1:9464 (port 0: any free one, told when it has
    /// started): /metrics in the OpenMetrics format; /livez, 200 while the loop turns; /readyz, 200 once
    /// all lines are armed (and the pods of this node known), with where each family's events come from.
    #[arg(long = "metrics", value_name = "ADDR", value_parser = address)]
    address: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port, as in 127.0.0.1:9464, [::1]:9464, or 0.0.0.0:9464 for everybody"
            .to_owned()
    })
}

impl MetricsArgs {
    /// To be called before anything is begun: what cannot be served there is a wrong argument.
    pub(super) fn bind(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(address) = self.address else {
            return Ok(None);
        };
        let listener = TcpListener::bind(address).map_err(|e| refused(address, &e))?;
        Ok(Some(listener))
    }
}

fn refused(address: SocketAddr, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "somebody listens there already; choose another port, or 0 for any free one".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; choose one that it has, or 0.0.0.0 for all of them"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one".to_owned()
        }
        _ => format!("{error}; choose another address"),
    };
    Failure::usage(&format!("--metrics {address}: {why}"))
}

pub(super) struct Served {
    pub(super) at: SocketAddr,
    counter: JoinHandle<()>,
    _server: Server,
}

/// Serves what is told to `vitals` and to the journal that comes back, which hands all to `journal`.
pub(super) fn serve(
    listener: TcpListener,
    vitals: Arc<Vitals>,
    watched: Vec<Signal>,
    checks: Vec<Check>,
    journal: ChannelJournal,
) -> io::Result<(ChannelJournal, Served)> {
    let at = listener.local_addr()?;
    let (metrics, mut counting) = metrics::metrics(vitals, watched, checks);
    let (journal, counter) = journal.seen_by(move |entry| counting.take(entry))?;
    let served = Served {
        at,
        counter,
        _server: Server::start(listener, metrics)?,
    };
    Ok((journal, served))
}

impl Served {
    /// To be called when nobody has the journal any more.
    pub(super) fn end(self) {
        // It hands on what it is given and has nothing to say.
        let _ = self.counter.join();
    }
}
