//! Packages of other Debian suites, read through a private apt configuration: the system's own is not touched.
//! Mirrors and keys are those the system already uses, only the suite's name differs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::console;
use crate::process::{ProcessError, capture, run_logged};
use crate::workspace::Workspace;

/// Everything the set-up takes from elsewhere: guest kernels and the library source.
const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "trixie-backports"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A private view of the archive.
pub(super) struct Archive {
    folder: PathBuf,
}

impl Archive {
    /// Reads the package lists of all suites. A suite that is gone is named and left out.
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        if !super::apt::available() {
            bail!("apt-get is not here: this is not a Debian machine");
        }
        let system = capture(Command::new("apt-get").args(["--print-uris", "update"]))
            .context("cannot read the system's apt sources")?;
        let mirrors = Mirrors::from_uris(&system)?;
        let archive = Self {
            folder: workspace.cache().join("apt"),
        };
        for folder in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(archive.folder.join(folder))?;
        }
        let keyring = Path::new(KEYRING).exists().then_some(KEYRING);
        std::fs::write(
            archive.folder.join("private.sources"),
            mirrors.sources(&SUITES, keyring),
        )?;
        console::progress(&format!(
            "reading the package lists of {}",
            SUITES.join(", ")
        ));
        let mut update = archive.apt("apt-get");
        match run_logged(
            update.args(["-q", "update"]),
            &workspace.log("apt-other-suites"),
        ) {
            Ok(()) => {}
            // apt fails when one suite does, but keeps the others: the step that needs the lost one will say so.
            Err(ProcessError::Failed { tail, .. }) => {
                for line in tail
                    .lines()
                    .filter(|line| line.contains("E: ") || line.contains("Err:"))
                {
                    console::progress(&format!("not all suites could be read: {}", line.trim()));
                }
            }
            Err(other) => return Err(other.into()),
        }
        Ok(archive)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let folder = |name: &str| self.folder.join(name).display().to_string();
        for option in [
            format!("Dir::Etc::sourcelist={}", folder("private.sources")),
            "Dir::Etc::sourceparts=/dev/null".into(),
            "Dir::Etc::preferencesparts=/dev/null".into(),
            format!("Dir::State::lists={}", folder("lists")),
            format!("Dir::Cache={}", folder("cache")),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
            "Acquire::Languages=none".into(),
            "APT::Sandbox::User=root".into(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }

    /// All (package, version) pairs of the packages whose names begin with `prefix`.
    pub(super) fn packages(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        let names = capture(self.apt("apt-cache").args(["pkgnames", prefix]))?;
        let names: Vec<&str> = names.lines().collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        Ok(parse_madison(&capture(
            self.apt("apt-cache").arg("madison").args(names),
        )?))
    }

    /// The `Depends` field of one version of a package.
    pub(super) fn depends(&self, package: &str, version: &str) -> Result<String> {
        let shown = capture(
            self.apt("apt-cache")
                .args(["show", &format!("{package}={version}")]),
        )?;
        Ok(shown
            .lines()
            .find_map(|line| line.strip_prefix("Depends: "))
            .unwrap_or_default()
            .to_owned())
    }

    /// Downloads one version of a package and unpacks it below `into`.
    pub(super) fn unpack(
        &self,
        workspace: &Workspace,
        package: &str,
        version: &str,
        into: &Path,
    ) -> Result<()> {
        let here = tempfile::Builder::new()
            .prefix("deb-")
            .tempdir_in(&self.folder)?;
        console::progress(&format!("fetching {package} {version}"));
        let mut download = self.apt("apt-get");
        download
            .current_dir(here.path())
            .args(["-q", "download", &format!("{package}={version}")]);
        run_logged(
            &mut download,
            &workspace.log(&format!("download-{package}")),
        )?;
        let file = std::fs::read_dir(here.path())?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "deb"))
            .with_context(|| format!("apt-get download left no .deb of {package}"))?;
        std::fs::create_dir_all(into)?;
        capture(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(file)
                .arg(into),
        )?;
        Ok(())
    }
}

/// `package | version | where` lines of `apt-cache madison`.
fn parse_madison(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter(|line| !line.ends_with(" Sources"))
        .filter_map(|line| {
            let mut fields = line.split('|').map(str::trim);
            Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
        })
        .collect()
}

/// Base addresses of the archive and of its security part, as the system knows them.
#[derive(Debug, PartialEq, Eq)]
struct Mirrors {
    main: String,
    security: Option<String>,
}

impl Mirrors {
    /// From `apt-get --print-uris update`, which knows every format of sources, mirrors and proxies.
    fn from_uris(text: &str) -> Result<Self> {
        let suites: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.strip_prefix('\'')?.split_once('\''))
            .filter_map(|(uri, _)| uri.strip_suffix("/InRelease")?.rsplit_once("/dists/"))
            .collect();
        let is_debian = |suite: &str| {
            [
                "bullseye", "bookworm", "trixie", "forky", "stable", "testing", "unstable", "sid",
            ]
            .contains(&suite)
        };
        let main = suites.iter().find(|(_, suite)| is_debian(suite));
        let security = suites
            .iter()
            .find(|(_, suite)| suite.strip_suffix("-security").is_some_and(is_debian));
        let Some((main, _)) = main else {
            bail!(
                "the system's apt sources name no Debian suite (looked for bookworm, trixie, ...)"
            )
        };
        Ok(Self {
            main: (*main).to_owned(),
            security: security.map(|(uri, _)| (*uri).to_owned()),
        })
    }

    fn sources(&self, suites: &[&str], keyring: Option<&str>) -> String {
        let mut text = String::new();
        for suite in suites {
            let security = format!("{suite}-security");
            let mut pairs = vec![(&self.main, *suite)];
            if let Some(uri) = self
                .security
                .as_ref()
                .filter(|_| !suite.ends_with("-backports"))
            {
                pairs.push((uri, &security));
            }
            for (uri, suite) in pairs {
                // Writing to a String cannot fail.
                let _ = write!(
                    text,
                    "Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\n"
                );
                if let Some(keyring) = keyring {
                    let _ = writeln!(text, "Signed-By: {keyring}");
                }
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URIS: &str = "\
'http://mirror.example/tools/dists/nodistro/InRelease' mirror.example_tools 0
'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0
'http://mirror.example/debian/dists/bookworm-updates/InRelease' x 0
'http://mirror.example/debian-security/dists/bookworm-security/InRelease' x 0
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' x 0
";

    #[test]
    fn mirrors_come_from_the_systems_own_sources() {
        let mirrors = Mirrors::from_uris(URIS).unwrap();
        assert_eq!(mirrors.main, "http://mirror.example/debian");
        assert_eq!(
            mirrors.security.as_deref(),
            Some("http://mirror.example/debian-security")
        );
        assert!(
            Mirrors::from_uris("'http://mirror.example/tools/dists/nodistro/InRelease' x 0")
                .is_err()
        );
    }

    #[test]
    fn each_suite_has_its_security_part_but_backports() {
        let text = Mirrors::from_uris(URIS)
            .unwrap()
            .sources(&["trixie", "trixie-backports"], Some("/key"));
        let suites: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("Suites: "))
            .collect();
        assert_eq!(suites, ["trixie", "trixie-security", "trixie-backports"]);
        assert_eq!(text.matches("Signed-By: /key").count(), 3);
    }

    #[test]
    fn madison_lines_are_package_and_version() {
        let text = "  rust-src | 1.95.0+dfsg1-2~bpo13+1 | http://m trixie-backports/main amd64 Packages\n  rust | 1.0 | http://m x Sources\n";
        assert_eq!(
            parse_madison(text),
            [("rust-src".to_owned(), "1.95.0+dfsg1-2~bpo13+1".to_owned())]
        );
    }
}
