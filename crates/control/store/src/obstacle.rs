//! The obstacle before a store's file that can't be opened: looked up, since SQLite only says that it can't.
//!
//! Next: `error`, which says it.

use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The reason why this user can't have the file at `path`, with the next step.
pub(crate) fn of(path: &Path) -> String {
    let directory = directory_of(path);
    if let Some(locked) = first_locked(directory) {
        return format!("{} may not be entered{}; ask for it", locked.display(), whose(locked));
    }
    if path.is_dir() {
        return "it is a folder; name a file".to_owned();
    }
    let may = |place: &Path, how: Access| access(place, how);
    let forbidden = [
        (path, Access::READ_OK, "read"),
        (path, Access::WRITE_OK, "written"),
        (directory, Access::WRITE_OK, "written"),
    ];
    let found = forbidden.into_iter().find_map(|(place, how, done)| Some((place, done, may(place, how).err()?)));
    match found {
        Some((place, _, Errno::ROFS)) => {
            format!(
                "{} lies on a file system that can only be read; mount it so that it can be written",
                place.display()
            )
        }
        Some((place, done, Errno::ACCESS)) => {
            format!("{} may not be {done}{}; ask for it (`chmod`)", place.display(), whose(place))
        }
        _ if !path.exists() => format!("no file can be made in {}; choose another folder", directory.display()),
        _ => "neither its rights nor those of its folder are in the way; see what SQLite says".to_owned(),
    }
}

/// The outermost folder on the way to this one, itself included, that this user can't enter.
fn first_locked(directory: &Path) -> Option<&Path> {
    let on_the_way: Vec<&Path> = directory.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
    on_the_way.into_iter().rev().find(|folder| access(*folder, Access::EXEC_OK) == Err(Errno::ACCESS))
}

/// Its mode and owner, in brackets; nothing if that can't be seen.
fn whose(place: &Path) -> String {
    let Ok(facts) = place.metadata() else { return String::new() };
    format!(" (mode {:o}, user {})", facts.mode() & 0o7777, facts.uid())
}

/// The directory a store's file lies in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_in_the_way_is_looked_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("store.db");
        fs::write(&file, "").expect("a file");
        for (name, path, expected) in [
            ("a folder", folder.path(), "it is a folder"),
            ("no place for files", Path::new("/proc/store.db"), "/proc"),
            ("all is well", &file, "neither its rights"),
        ] {
            let why = of(path);
            assert!(why.contains(expected), "{name}: {why}");
        }
    }
}
