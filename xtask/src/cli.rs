//! The command line.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use xtask::cluster::check_name;
use xtask::setup::GUEST_KERNELS;
use xtask::soak::Soak;
use xtask::suites::SUITES;
use xtask::vm::CgroupVersion;

/// Set-up, build, checks and tests of eviction.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install and fetch what this machine lacks: packages, toolchain parts, guest kernels
    Setup {
        /// Only say what is there and what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Build the static release binary, target/release/eviction
    Build,
    /// Pack that binary, without its symbols, as a container image: target/image/eviction.tar
    Image,
    /// Render the kustomize base from the Helm chart, with the real helm
    Manifests,
    /// Read the sources: formatting, lints, layers, sizes
    Check,
    /// Run test suites, after the set-up they need; all of them without names
    #[command(
        after_help = "With CI=true a skip that tests/allowed-skips.toml does not list is a failure."
    )]
    Test(TestArgs),
    /// Apply the mistakes of tests/mutants.toml one at a time and show that the tests notice each
    Mutants {
        /// Only those with this in their file, line or description
        #[arg(default_value = "")]
        filter: String,
    },
    /// Show the main job on this machine, after the set-up it needs: a hog dies before the OOM killer moves
    Demo {
        /// For people, or one JSON object
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Cross memory lines at random in the guests, hundreds of times: no crossing may be missed
    Soak(SoakArgs),
    /// Measure against the kubelet, side by side
    #[command(subcommand)]
    Bench(BenchCommand),
    /// A real Kubernetes node on this machine: etcd, API server, controller manager, scheduler, containerd, kubelet
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Boot a guest kernel with the built binary in it and run a command there
    #[command(
        after_help = "The guest is a busybox with `eviction` on its PATH. The command's exit code becomes ours; files it leaves in\n\
                            /out come back with --out. The console of the last guest stays in target/vm."
    )]
    Vm(VmArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One hog on a real node, past one line: from the crossing to its last allocation, evicted by the kubelet as it polls, by the
    /// kubelet with its memcg notifier, and by the chart's pod, in turns
    Cluster {
        /// Runs of each
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// On cgroup v2 instead, in an emulated guest: a slower hog, and no notifier, which the kubelet does not have there
        #[arg(long)]
        guest: bool,
        /// For people, or one JSON object as the last line
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// One hog after the other beside a kubelet that evicts, too, at three distances of its line from ours: how often a second pod
    /// goes
    Pairing {
        /// Hogs at each distance
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        hogs: u32,
        /// For people, or one JSON object as the last line
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Build its programs if need be, start them and wait until the node is ready
    Up(ClusterName),
    /// End it and remove all that it has left behind
    Down(ClusterName),
    /// A shell in its network namespace, with kubectl, ctr and the others on the path
    Shell(ClusterName),
}

#[derive(Debug, Args)]
pub(crate) struct ClusterName {
    /// Names its folder in /var/tmp, its cgroup, its network namespace
    #[arg(long, default_value = "evk", value_parser = cluster_name)]
    pub(crate) name: String,
}

fn cluster_name(name: &str) -> Result<String, String> {
    check_name(name)
        .map(|()| name.to_owned())
        .map_err(|error| error.to_string())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

impl Output {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Suites to run, in their own order
    #[arg(value_name = "SUITE", value_parser = PossibleValuesParser::new(SUITES.map(|suite| suite.name)))]
    pub(crate) suites: Vec<String>,
    /// List the suites
    #[arg(long)]
    pub(crate) list: bool,
    /// Only tests with this in their names
    #[arg(last = true, value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// Only this kernel series
    #[arg(long, value_name = "SERIES", value_parser = PossibleValuesParser::new(GUEST_KERNELS.map(|kernel| kernel.series)))]
    kernel: Option<String>,
    /// How often each line is crossed on each machine
    #[arg(long, value_name = "N", default_value_t = 500)]
    crossings: u32,
    /// Where the random choices begin
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

impl From<SoakArgs> for Soak {
    fn from(args: SoakArgs) -> Self {
        Self {
            kernel: args.kernel,
            crossings: args.crossings,
            seed: args.seed,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct VmArgs {
    /// Kernel series
    #[arg(long, value_name = "SERIES", value_parser = PossibleValuesParser::new(GUEST_KERNELS.map(|kernel| kernel.series)))]
    pub(crate) kernel: String,
    /// Cgroup version to mount: v1 or v2
    #[arg(long, value_name = "VERSION", default_value_t = CgroupVersion::V2)]
    pub(crate) cgroup: CgroupVersion,
    /// Memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(128..))]
    pub(crate) memory: u32,
    /// Another file for the guest; programs bring their libraries. Default place: /bin/NAME
    #[arg(long, value_name = "FILE[:PLACE]")]
    pub(crate) with: Vec<String>,
    /// Another kernel module to load first, such as xfs, btrfs or overlay
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// A raw disk image, /dev/vda and so on
    #[arg(long = "disk", value_name = "FILE")]
    pub(crate) disks: Vec<PathBuf>,
    /// Folder for what the guest leaves in /out
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Seconds until a guest without a verdict is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,
    /// Leave out `eviction` itself and its build
    #[arg(long)]
    pub(crate) bare: bool,
    /// A shell in the guest instead of a command
    #[arg(long, conflicts_with = "command")]
    pub(crate) shell: bool,
    /// What to run in the guest
    #[arg(last = true, required_unless_present = "shell")]
    pub(crate) command: Vec<String>,
}
