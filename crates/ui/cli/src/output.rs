//! Where results go: terminal, files, and what an error looks like.
//!
//! Next: `trimtab-report` draws the report itself.

use anyhow::Context;
use std::io::{IsTerminal, Write};
use std::path::Path;
use trimtab_report::Style;
use trimtab_types::report::Report;

/// Columns where the width is not known.
const COLUMNS: usize = 100;

/// How to draw on standard output or standard error.
pub fn style(to_terminal: bool) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let unicode = locale.is_none_or(|locale| locale.to_lowercase().contains("utf"));
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    // Files and other programs have room for whole names, unless a width was asked for.
    let whole_names = !to_terminal && asked.is_none();
    let width = asked.or_else(|| if to_terminal { terminal_width() } else { None }).unwrap_or(COLUMNS);
    Style { colour: to_terminal && !plain, width, unicode, paths: false, whole_names }
}

fn terminal_width() -> Option<usize> {
    let (_, columns) = console::Term::stdout().size_checked()?;
    Some(columns as usize)
}

/// Prints the report on standard output, `paths` with the whole paths of calls.
pub fn print_report(report: &Report, headline: &str, paths: bool) -> anyhow::Result<()> {
    let style = Style { paths, ..style(std::io::stdout().is_terminal()) };
    print_text(&trimtab_report::terminal(report, headline, &style))
}

/// Prints text on standard output; a closed pipe is an error that ends quietly.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Says on standard error which programs and libraries could not be looked at, and why.
pub fn print_unread(unread: &[(String, String)]) {
    for (path, reason) in unread {
        eprintln!("trimtab: not looked at: {path}: {reason}");
    }
}

/// Makes sure that `path` can be written, without changing what it holds.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return Ok(());
    }
    let is_new = path.symlink_metadata().is_err();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let context = || format!("can't write {}, nothing was measured; give a file that you may write", path.display());
    opened.map(drop).with_context(context)?;
    if is_new {
        // An empty file would look like a report if there is none in the end.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Writes `text` to `path`, or to standard output for `-`.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return print_text(text);
    }
    replace(path, text).with_context(|| format!("can't write {}", path.display()))
}

/// A file has the whole text or what it had before, also on a full disk; pipes and devices are written to as they are.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // The file behind a link is replaced, not the link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let known = std::fs::metadata(&path).ok();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let made = match &known {
        Some(known) if !known.is_file() => None,
        _ => std::fs::File::create_new(&beside).ok(),
    };
    // A folder that takes no new file may still hold one that may be written.
    let Some(mut file) = made else { return std::fs::write(&path, text) };
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let kept = written.and_then(|()| known.map_or(Ok(()), |known| file.set_permissions(known.permissions())));
    kept.and_then(|()| std::fs::rename(&beside, &path)).inspect_err(|_| drop(std::fs::remove_file(&beside)))
}

/// Appends a line to `path`, or prints it on standard output for `-`.
pub fn append(path: &Path, line: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return print_text(line);
    }
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let written = opened.and_then(|mut file| {
        let length = file.metadata().map(|data| data.len());
        // Half a line would spoil the lines that follow.
        file.write_all(format!("{line}\n").as_bytes()).inspect_err(|_| drop(length.map(|length| file.set_len(length))))
    });
    written.with_context(|| format!("can't write {}", path.display()))
}

/// A time in the unit that fits.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// The error with all its causes in one line.
pub fn chain(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if parts.last() != Some(&cause) {
            parts.push(cause);
        }
    }
    parts.join(": ")
}

/// True if the reader of our output has gone away.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
