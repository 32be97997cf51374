//! Files that are not a store, not writable, not readable, not there, or out of space: each has its own error, names
//! the file and the next step, and is left as it was.

mod common;

use common::{job, report};
use std::path::Path;
use std::process::Command;
use trimtab_store::{Error, SCHEMA_VERSION, Store};

/// The variant's name, so that a table can say what is expected.
fn variant(error: &Error) -> String {
    let debug = format!("{error:?}");
    debug.split([' ', '{', '(']).next().unwrap_or_default().to_string()
}

fn database(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Makes the file of a case.
type Make = fn(&Path);

#[test]
fn broken_files_are_told_apart_and_left_alone() {
    let rows: [(&str, Make, &str); 8] = [
        ("text", |path| std::fs::write(path, "hello, this is no database at all").unwrap(), "NotADatabase"),
        ("other program", |path| database(path, "CREATE TABLE bookmarks (x)"), "ForeignDatabase"),
        (
            "other program with an id",
            |path| database(path, "PRAGMA application_id = 7; PRAGMA user_version = 1; CREATE TABLE t (x)"),
            "ForeignDatabase",
        ),
        (
            "newer",
            |path| database(path, "PRAGMA application_id = 1953655149; PRAGMA user_version = 99; CREATE TABLE t (x)"),
            "Newer",
        ),
        ("header only", |path| std::fs::write(path, b"SQLite format 3\0").unwrap(), "NotADatabase"),
        ("damaged", damage, "Corrupt"),
        ("directory", |path| std::fs::create_dir(path).unwrap(), "Unreadable"),
        ("no such directory", |_| (), "NoDirectory"),
    ];
    for (name, make, expected) in rows {
        let folder = tempfile::tempdir().unwrap();
        let file = if name == "no such directory" { "missing/trimtab.db" } else { "trimtab.db" };
        let path = folder.path().join(file);
        make(&path);
        let before = std::fs::read(&path).ok();
        let error = Store::open(Some(&path)).and_then(|store| store.list_jobs()).unwrap_err();
        assert_eq!(variant(&error), expected, "{name}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(folder.path().to_str().unwrap()), "{name} names the file: {text}");
        assert!(text.contains("--store") || text.contains("sqlite3"), "{name} gives a next step: {text}");
        assert_eq!(std::fs::read(&path).ok(), before, "{name} is left as it was");
    }
}

/// A store whose table of jobs is overwritten.
fn damage(path: &Path) {
    let mut store = Store::open(Some(path)).unwrap();
    for number in 0..200 {
        store.upsert_job(&job("/opt/app"), &format!("key {number}")).unwrap();
    }
    store.vacuum().unwrap();
    drop(store);
    let mut bytes = std::fs::read(path).unwrap();
    bytes[4096..].fill(0xa5);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_newer_store_names_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimtab.db");
    drop(Store::open(Some(&path)).unwrap());
    database(&path, &format!("PRAGMA user_version = {}", SCHEMA_VERSION + 41));
    for open in [Store::open, Store::open_to_read] {
        let error = open(Some(&path)).unwrap_err().to_string();
        let versions =
            format!("has schema version {}, this trimtab knows up to {SCHEMA_VERSION};", SCHEMA_VERSION + 41);
        assert!(error.contains(&versions), "{error}");
    }
}

#[test]
fn reading_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimtab.db");
    let error = Store::open_to_read(Some(&path)).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::write(&path, "").unwrap();
    let error = Store::open_to_read(Some(&path)).unwrap_err();
    assert!(matches!(error, Error::Older { found: 0, .. }), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    // Whoever only wants to look at their own needs no other command first.
    assert_eq!(Store::open_to_show(Some(&path)).unwrap().list_jobs().unwrap(), []);
    Store::open_to_read(Some(&path)).unwrap();
}

#[test]
fn a_reader_sees_what_a_writer_commits_and_may_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimtab.db");
    let mut writer = Store::open(Some(&path)).unwrap();
    let id = writer.upsert_job(&job("/opt/app"), "k").unwrap();
    let mut reader = Store::open_to_read(Some(&path)).unwrap();
    writer.insert_window(&id, &report(0, 1)).unwrap();
    assert_eq!(reader.windows(&id).unwrap().len(), 1);
    let error = reader.delete_job(&id).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
}

#[test]
fn a_new_store_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimtab.db");
    drop(Store::open(Some(&path)).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_full_disk_keeps_every_earlier_window() {
    let Some(disk) = Mount::new("size=1m") else { return };
    let path = disk.path().join("trimtab.db");
    let mut store = Store::open(Some(&path)).unwrap();
    let id = store.upsert_job(&job("/opt/app"), "k").unwrap();
    let mut kept = 0;
    let error = loop {
        match store.insert_window(&id, &report(kept, 2000)) {
            Ok(number) => kept = number + 1,
            Err(error) => break error,
        }
        assert!(kept < 1000, "the disk never fills");
    };
    assert!(matches!(error, Error::DiskFull { .. }), "after {kept} windows: {error:?}");
    assert!(kept > 2, "{kept} windows fitted");
    for store in [store, Store::open_to_read(Some(&path)).unwrap()] {
        assert_eq!(store.windows(&id).unwrap().len(), kept as usize);
        for number in 0..kept {
            assert_eq!(store.window(&id, number).unwrap().ranks[0].iteration_times_s.len(), 2000);
        }
    }
    // Nothing fits any more, not even an empty store beside it.
    std::fs::write(disk.path().join("filler"), vec![0; 1 << 20]).unwrap_err();
    let error = Store::open(Some(&disk.path().join("second.db"))).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
}

#[test]
fn a_read_only_file_system_is_read_but_not_written() {
    let Some(disk) = Mount::new("size=4m") else { return };
    let path = disk.path().join("trimtab.db");
    let mut store = Store::open(Some(&path)).unwrap();
    let id = store.upsert_job(&job("/opt/app"), "k").unwrap();
    store.insert_window(&id, &report(0, 1)).unwrap();
    drop(store);
    disk.remount_read_only();
    let error = Store::open(Some(&path)).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
    let reader = Store::open_to_read(Some(&path)).unwrap();
    assert_eq!(reader.window(&id, 0).unwrap().window.number, 0);
}

/// A small file system of its own, gone when dropped; `None`, loudly, where mounting is not allowed.
struct Mount {
    folder: tempfile::TempDir,
}

impl Mount {
    fn new(options: &str) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Mount { folder });
        }
        eprintln!("SKIPPED: cannot mount a tmpfs here (needs root); nothing was tested");
        None
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn remount_read_only(&self) {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}
