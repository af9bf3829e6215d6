//! The kinds of file that are understood, and how one is told from another.

use super::error::{ConfigError, DocumentFault, SettingFault};
use super::keys;
use super::origin::Origin;
use super::section::Section;
use super::yaml::{Entry, Node};

/// The group and version of our own configuration: the one place that names them.
pub(super) const OWN_API_VERSION: &str = "eviction.dev/v1alpha1";
pub(super) const OWN_KIND: &str = "EvictionConfiguration";
const KUBELET_API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KUBELET_KIND: &str = "KubeletConfiguration";
/// Under this key the kubelet's `/configz` answers with its configuration.
const CONFIGZ_KEY: &str = "kubeletconfig";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A kubelet's configuration file. Keys that have nothing to do with eviction are allowed.
    Kubelet,
    /// A saved answer of the kubelet's `/configz`: what is in force there, defaults filled in.
    Configz,
    /// Our own: strict.
    Own,
}

impl Format {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubelet => KUBELET_KIND,
            Self::Configz => "/configz",
            Self::Own => OWN_KIND,
        }
    }

    /// Whose configuration the file was written for.
    pub const fn is_kubelets(self) -> bool {
        matches!(self, Self::Kubelet | Self::Configz)
    }
}

/// A file, told what it is.
pub(super) struct Document<'a> {
    pub(super) format: Format,
    pub(super) settings: Section<'a>,
}

/// `place` makes the origin of a line.
pub(super) fn recognize<'a>(
    tree: &'a Node,
    place: &'a dyn Fn(u64) -> Origin,
) -> Result<Document<'a>, ConfigError> {
    if let Some(twice) = tree.duplicate() {
        let fault = SettingFault::Duplicate {
            key: twice.key.clone(),
            first: twice.first,
        };
        return Err(ConfigError::setting(&place(twice.second), twice.key, fault));
    }
    let Node::Map(entries) = tree else {
        let fault = match tree {
            Node::Null => DocumentFault::NoKind,
            other => DocumentFault::NoMap(other.describe()),
        };
        return Err(wrong(place(1), fault));
    };
    let section = Section::new(entries, place);
    let Some(kind) = section.text(keys::KIND)? else {
        return configz(entries, place);
    };
    let format = match kind.value.as_str() {
        KUBELET_KIND => Format::Kubelet,
        OWN_KIND => Format::Own,
        other => {
            return Err(wrong(
                kind.origin,
                DocumentFault::UnknownKind(other.to_owned()),
            ));
        }
    };
    let expected = if format == Format::Own {
        OWN_API_VERSION
    } else {
        KUBELET_API_VERSION
    };
    let version = section.text(keys::API_VERSION)?;
    let found = version.as_ref().map_or("", |version| &version.value);
    if found != expected {
        let fault = DocumentFault::UnknownVersion {
            found: found.to_owned(),
            kind: format.name(),
            expected,
        };
        return Err(wrong(version.map_or(kind.origin, |v| v.origin), fault));
    }
    Ok(Document {
        format,
        settings: section,
    })
}

fn configz<'a>(
    entries: &'a [Entry],
    place: &'a dyn Fn(u64) -> Origin,
) -> Result<Document<'a>, ConfigError> {
    let inner = entries.iter().find(|entry| entry.key == CONFIGZ_KEY);
    match inner.map(|entry| (&entry.value, entry.line)) {
        Some((Node::Map(settings), _)) => Ok(Document {
            format: Format::Configz,
            settings: Section::new(settings, place),
        }),
        Some((other, line)) => Err(wrong(place(line), DocumentFault::NoMap(other.describe()))),
        None => Err(wrong(place(1), DocumentFault::NoKind)),
    }
}

fn wrong(origin: Origin, fault: DocumentFault) -> ConfigError {
    ConfigError::Document { origin, fault }
}
