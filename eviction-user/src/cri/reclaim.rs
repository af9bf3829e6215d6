//! Has the container runtime remove what nobody needs, before a pod has to go: from a thread of its own, because the deciding
//! thread has to go on looking.

use super::ask::CriError;
use super::images::ImageTimes;
use super::messages::Image;
use super::remains::{dead_containers, dead_sandboxes};
use super::remove::Done;
use super::survey::Runtime;
use crate::model::ReclaimCall;
use crate::ports::{
    NodeReclaim, PodFate, ReclaimBy, ReclaimEnd, ReclaimOrder, ReclaimReport, Removed,
};
use crate::sys::clock;
use crate::sys::filesystem::FileSystem;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::time::sleep;

/// For the whole: who is to be evicted waits for it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked which images there are. (The kubelet looks every 5 min; an image counts as new until it has been seen.)
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The file system is read so often until no more comes free.
const STEP: Duration = Duration::from_millis(50);
/// No more comes free when nothing has for so long.
const QUIET: u32 = 6;
/// Waited for that at most.
const SETTLING: Duration = Duration::from_secs(3);

/// The runtime's socket, held open by its name (`O_PATH`).
#[derive(Debug)]
pub struct Sockets {
    pub containers: OwnedFd,
    /// `None`: it is the same.
    pub images: Option<OwnedFd>,
}

/// How to have it done.
pub struct RuntimeReclaim {
    /// Looked for anew each time: the runtime may have been restarted.
    pub sockets: Box<dyn Fn() -> Result<Sockets, CriError> + Send>,
    /// By uid, as the runtime has it.
    pub fate: Box<dyn Fn(&str) -> PodFate + Send>,
    /// Of images: younger ones stay.
    pub minimum_age: Duration,
    /// Where space is to come free.
    pub disks: Vec<FileSystem>,
}

impl RuntimeReclaim {
    /// Begins to follow the images.
    pub fn start(self) -> io::Result<Box<dyn NodeReclaim>> {
        let (orders, work) = channel();
        let (done, reports) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let worker = Worker {
            given: self,
            times: ImageTimes::default(),
        };
        std::thread::Builder::new()
            .name("eviction-reclaim".into())
            .spawn(move || worker.serve(&runtime, &work, &done))?;
        Ok(Box::new(Reclaimer {
            orders,
            reports,
            is_running: false,
        }))
    }
}

/// At most one reclaim is under way. Its thread ends when it finds this value gone.
struct Reclaimer {
    orders: Sender<ReclaimOrder>,
    reports: Receiver<ReclaimReport>,
    is_running: bool,
}

impl NodeReclaim for Reclaimer {
    fn by(&self) -> ReclaimBy {
        ReclaimBy::Runtime
    }

    fn begin(&mut self, order: ReclaimOrder) {
        if !self.is_running {
            self.is_running = self.orders.send(order).is_ok();
        }
    }

    fn report(&mut self) -> Option<ReclaimReport> {
        let report = self.reports.try_recv().ok()?;
        self.is_running = false;
        Some(report)
    }
}

struct Worker {
    given: RuntimeReclaim,
    times: ImageTimes,
}

impl Worker {
    fn serve(
        mut self,
        runtime: &tokio::runtime::Runtime,
        work: &Receiver<ReclaimOrder>,
        done: &Sender<ReclaimReport>,
    ) {
        loop {
            // A runtime that does not answer now is asked again; whoever wants something of it will be told.
            if let Err(error) = runtime.block_on(self.look()) {
                tracing::debug!("the images are not known: {error}");
            }
            let order = match work.recv_timeout(LOOK_EVERY) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if done.send(runtime.block_on(self.run(order))).is_err() {
                return;
            }
        }
    }

    async fn look(&mut self) -> Result<(), CriError> {
        let runtime = Runtime::open(&(self.given.sockets)()?).await?;
        self.images(&runtime, &BTreeSet::new()).await.map(drop)
    }

    /// All there are, and the names of those in use. `without`: containers that do not count.
    async fn images(
        &mut self,
        runtime: &Runtime,
        without: &BTreeSet<String>,
    ) -> Result<(Vec<Image>, BTreeSet<String>), CriError> {
        // In this order: an image that comes in between is not in the list.
        let images = runtime.images().await?;
        let mut containers = runtime.containers().await?;
        containers.retain(|one| !without.contains(&one.id));
        let used = runtime
            .used(&containers, &runtime.sandboxes().await?)
            .await?;
        self.times.note(&images, &used, clock::now());
        Ok((images, used))
    }

    async fn run(&mut self, order: ReclaimOrder) -> ReclaimReport {
        let began = clock::now();
        let mut done = Done::begin(order.dry_run);
        let end = match tokio::time::timeout(PATIENCE, self.carry_out(order, &mut done)).await {
            Err(_) => ReclaimEnd::Silent(format!(
                "the container runtime is not done within {} s",
                PATIENCE.as_secs()
            )),
            Ok(Err(CriError::NoAnswer(patience))) => ReclaimEnd::Silent(format!(
                "the container runtime does not answer within {} s",
                patience.as_secs()
            )),
            Ok(Err(error)) => ReclaimEnd::Refused(format!("the container runtime: {error}")),
            Ok(Ok(())) => match done.failures() {
                Ok(()) => ReclaimEnd::Done,
                Err(why) => ReclaimEnd::Refused(format!("the container runtime: {why}")),
            },
        };
        if !order.dry_run && done.removed != Removed::default() {
            self.settle().await;
        }
        ReclaimReport {
            took: clock::elapsed_since(began),
            end,
            removed: Some(done.removed),
        }
    }

    async fn carry_out(&mut self, order: ReclaimOrder, done: &mut Done) -> Result<(), CriError> {
        let runtime = Runtime::open(&(self.given.sockets)()?).await?;
        for call in order.calls {
            match call {
                ReclaimCall::DeadContainers => self.remove_remains(&runtime, done).await?,
                ReclaimCall::UnusedImages => self.remove_images(&runtime, done).await?,
            }
        }
        Ok(())
    }

    async fn remove_remains(&self, runtime: &Runtime, done: &mut Done) -> Result<(), CriError> {
        let fate = &*self.given.fate;
        let mut containers = runtime.containers().await?;
        let sandboxes = runtime.sandboxes().await?;
        let dead = dead_containers(&containers, &sandboxes, fate);
        for one in &dead {
            done.container(runtime, one).await?;
        }
        if !dead.is_empty() {
            // One that could not be removed keeps its sandbox.
            containers = runtime.containers().await?;
            containers.retain(|one| !done.would_be_gone.contains(&one.id));
        }
        for one in dead_sandboxes(&containers, &sandboxes, fate) {
            done.sandbox(runtime, &one).await?;
        }
        Ok(())
    }

    async fn remove_images(&mut self, runtime: &Runtime, done: &mut Done) -> Result<(), CriError> {
        let (images, used) = self.images(runtime, &done.would_be_gone).await?;
        let unused = self
            .times
            .unused(&images, &used, self.given.minimum_age, clock::now());
        for one in unused {
            done.image(runtime, &one).await?;
        }
        Ok(())
    }

    /// The second reading is to show what came free. containerd 2 answers only when it has collected what the last name of an image
    /// held, and then all of it is free: in 300 ms after its answer nothing more came (160 MiB, ext4). Of others that is not known.
    async fn settle(&self) {
        let began = clock::now();
        let (mut most, mut quiet) = (self.free(), 0);
        while quiet < QUIET && clock::elapsed_since(began) < SETTLING {
            sleep(STEP).await;
            let free = self.free();
            quiet = if free > most { 0 } else { quiet + 1 };
            most = most.max(free);
        }
    }

    fn free(&self) -> u64 {
        let disks = self.given.disks.iter().filter_map(|disk| disk.read().ok());
        disks.map(|disk| disk.available_bytes).sum()
    }
}
