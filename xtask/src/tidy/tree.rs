//! The repository's files and its packages, held in memory for the rules to look at.
//!
//! Reading happens here and nowhere else in `tidy`, so that a rule's test can pass a tree of two small files.
//! Files are those git tracks or would track; without git, everything outside `target`.
//!
//! Next: the rules, in the sibling modules.

use super::rust_source::RustSource;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The repository as the rules see it.
#[derive(Default)]
pub struct Tree {
    /// Every file, in order of path.
    pub files: Vec<TreeFile>,
    /// Every package of the workspace.
    pub packages: Vec<Package>,
}

/// One file of the repository.
pub struct TreeFile {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// The content, with U+FFFD for what is not UTF-8.
    pub text: String,
    /// True if the content holds a zero byte or is not UTF-8.
    pub binary: bool,
    /// The views of Rust text, for `.rs` files.
    pub rust: Option<RustSource>,
}

/// One package of the workspace, as cargo reads its manifest.
pub struct Package {
    /// Its name, such as `trimtab-types`.
    pub name: String,
    /// Its folder relative to the workspace, such as `crates/base/types`.
    pub folder: String,
    /// The licence field; `None` if missing.
    pub license: Option<String>,
    /// The description field; `None` if missing.
    pub description: Option<String>,
    /// Everything it depends on, tests and builds included.
    pub dependencies: Vec<Dependency>,
}

/// One entry under a manifest's dependencies.
pub struct Dependency {
    /// The package's name, not the name it may be renamed to.
    pub name: String,
    /// True if it is only for tests.
    pub dev: bool,
    /// True if it lies in this repository.
    pub local: bool,
}

impl Tree {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// When a file cannot be read or `cargo metadata` fails (a manifest with a mistake).
    pub fn read(root: &Path) -> Result<Tree> {
        let mut paths = list_files(root)?;
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let full = root.join(&path);
            // A tracked file may be deleted and not yet committed; a link to a folder is no file.
            if full.is_file() {
                let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
                files.push(TreeFile::new(&path, &bytes));
            }
        }
        Ok(Tree { files, packages: read_packages(root)? })
    }

    /// The file at `path`, if there is one.
    pub fn file(&self, path: &str) -> Option<&TreeFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Every Rust file with its views.
    pub fn rust_files(&self) -> impl Iterator<Item = (&str, &RustSource)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.rust.as_ref()?)))
    }

    /// True if something lies at `path`, a file or a folder.
    pub fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl TreeFile {
    /// A file with its views.
    pub fn new(path: &str, bytes: &[u8]) -> TreeFile {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let binary = bytes.contains(&0) || std::str::from_utf8(bytes).is_err();
        let rust = path.ends_with(".rs").then(|| RustSource::new(&text));
        TreeFile { path: path.to_string(), text, binary, rust }
    }
}

fn list_files(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    match shell::read(&mut git) {
        Ok(listing) => Ok(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_string).collect()),
        Err(_) => {
            let mut paths = Vec::new();
            walk(root, "", &mut paths)?;
            Ok(paths)
        }
    }
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(root.join(folder)).with_context(|| format!("cannot list ./{folder}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            if !matches!(name.as_str(), "target" | "build" | ".git") {
                walk(root, &path, paths)?;
            }
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

fn read_packages(root: &Path) -> Result<Vec<Package>> {
    let metadata = shell::read(&mut shell::cargo(root, &["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
    let root = metadata["workspace_root"].as_str().context("cargo metadata names no workspace_root")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    Ok(packages.iter().map(|package| read_package(Path::new(root), package)).collect())
}

fn read_package(root: &Path, package: &Value) -> Package {
    let text = |key: &str| package[key].as_str().map(str::to_string);
    let manifest = text("manifest_path").unwrap_or_default();
    let folder = Path::new(&manifest).parent().unwrap_or(root);
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    Package {
        name: text("name").unwrap_or_default(),
        folder: shell::relative(root, folder).to_string(),
        license: text("license"),
        description: text("description"),
        dependencies: dependencies
            .iter()
            .map(|dependency| Dependency {
                name: dependency["name"].as_str().unwrap_or_default().to_string(),
                dev: dependency["kind"] == "dev",
                local: dependency["path"].is_string(),
            })
            .collect(),
    }
}

#[cfg(test)]
pub mod examples {
    //! Small trees for the rules' tests.

    use super::*;

    /// A tree of these files and no package.
    pub fn files(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| TreeFile::new(path, text.as_bytes())).collect();
        Tree { files, packages: Vec::new() }
    }

    /// A package; a dependency is local if it starts with `trimtab`, and for tests only if written `dev:NAME`.
    pub fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|written| {
            let name = written.trim_start_matches("dev:");
            Dependency { name: name.to_string(), dev: written.starts_with("dev:"), local: name.starts_with("trimtab") }
        });
        Package {
            name: name.to_string(),
            folder: folder.to_string(),
            license: Some("Apache-2.0 OR MIT".to_string()),
            description: Some("An example".to_string()),
            dependencies: dependencies.collect(),
        }
    }
}
