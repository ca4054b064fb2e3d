//! Contexts: named control planes in a file of the user, so that commands need no addresses.
//!
//! The file is `$FABRICAST_CONTEXTS`, or else `fabricast/contexts.toml` below `$XDG_CONFIG_HOME` or
//! `~/.config`.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::{output, source};

/// Name of the file below the user's folder of settings.
const FILE: &str = "fabricast/contexts.toml";

/// The contexts of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The context of commands that name neither a context nor a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A control plane: the addresses of its parts, and how to connect to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// Addresses of the TICs, or the one address of all parts.
    pub(crate) server: Vec<String>,
    /// Addresses of the route services; empty: those that the TICs name. The same holds for the
    /// other parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) router: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) switch_agent: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) operating_agent: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fabric: Vec<String>,
    /// Folder with ca.crt, tls.crt and tls.key of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificates: Option<PathBuf>,
    /// Unencrypted connections to other machines are allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) plaintext: bool,
}

impl Contexts {
    /// Reads the user's contexts; there are none if the file is missing.
    ///
    /// # Errors
    ///
    /// Names the file and the line that is wrong.
    pub(crate) fn read() -> Result<Self, Failure> {
        match path() {
            Some(path) => Self::read_file(&path),
            None => Ok(Self::default()),
        }
    }

    fn read_file(path: &Path) -> Result<Self, Failure> {
        if !path.try_exists().with_context(|| format!("read '{}'", path.display()))? {
            return Ok(Self::default());
        }
        let text = source::read_text(path)?;
        let wrong = |what: String| Failure::input(format!("'{}': {what}", path.display()));
        let contexts: Self = toml::from_str(&text)
            .map_err(|error| wrong(source::in_one_line(&error.to_string())))?;
        match contexts.contexts.iter().find(|(_, context)| context.server.is_empty()) {
            Some((name, _)) => Err(wrong(format!("context '{name}': server is empty"))),
            None => Ok(contexts),
        }
    }

    /// Writes the user's contexts.
    ///
    /// # Errors
    ///
    /// There is no place for the file, or it cannot be written; then it has not changed.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let unset = || Failure::input("neither FABRICAST_CONTEXTS nor HOME is set");
        let path = path().ok_or_else(unset)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("create '{}'", folder.display()))?;
        }
        output::files(&[(&path, &toml::to_string(self)?)])
    }

    /// The context with a name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn named(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| {
            Failure::input(format!("no context is named '{name}'"))
                .hint("`fabricast context list` shows what there is")
        })
    }

    /// The context of commands that name none.
    ///
    /// # Errors
    ///
    /// The file names one that it does not hold.
    pub(crate) fn current(&self) -> Result<Option<&Context>, Failure> {
        self.current.as_deref().map(|name| self.named(name)).transpose()
    }
}

/// Path of the user's file.
fn path() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    if let Some(file) = folder("FABRICAST_CONTEXTS") {
        return Some(file);
    }
    let settings = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    Some(settings?.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_and_what_is_wrong_is_named() {
        let lab = Context {
            server: vec!["tic-0:7401".to_owned(), "tic-1:7401".to_owned()],
            certificates: Some("/etc/fabricast".into()),
            ..Context::default()
        };
        let contexts = Contexts {
            current: Some("lab".to_owned()),
            contexts: BTreeMap::from([("lab".to_owned(), lab)]),
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("contexts.toml");
        assert_eq!(Contexts::read_file(&file).unwrap(), Contexts::default());
        std::fs::write(&file, toml::to_string(&contexts).unwrap()).unwrap();
        assert_eq!(Contexts::read_file(&file).unwrap(), contexts);
        for (text, wrong) in [
            ("[contexts.a]\nserver = []\n", "context 'a': server is empty"),
            ("[contexts.a]\nservers = []\n", "line 2, column 1: unknown field `servers`"),
            ("current = \"a\n", "line 1"),
        ] {
            std::fs::write(&file, text).unwrap();
            let message = Contexts::read_file(&file).unwrap_err().message();
            assert!(message.contains("contexts.toml': ") && message.contains(wrong), "{message}");
        }
        let dangling = Contexts { current: Some("a".to_owned()), ..Contexts::default() };
        assert!(dangling.current().is_err(), "its context was removed");
    }
}
