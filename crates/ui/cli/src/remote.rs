//! The store of a site: windows that went through it are filed there, and shown again by `list` and `report`.
//!
//! Next: `stored` for one's own store, which has them too; `trimtab_controller::jobs` for what is said.

use crate::arguments::site::KeptOptions;
use crate::exit_code::PARTIAL;
use crate::{output, stored};
use anyhow::{Context, bail};
use trimtab_controller::jobs::JobLine;
use trimtab_controller::{Client, SiteError};
use trimtab_engine::{BoxError, Filed, Measured};
use trimtab_report::{ListedJob, ListedWindow};
use trimtab_types::one_line;

/// Has the site keep a window that its agents measured. A window that it does not keep is in the own store, and a word is
/// said about it.
pub fn file(measured: &mut Measured) {
    let Some(filed) = measured.file() else { return };
    let report = &measured.report;
    let here = measured.kept.is_ok().then(|| format!("{}/{}", report.job.id, report.window.number));
    eprintln!("trimtab: {}", kept_where(filed, here.as_deref()));
}

/// Where a window is, in one line.
fn kept_where(filed: Result<Filed, BoxError>, here: Option<&str>) -> String {
    let filed = filed.map_err(|why| one_line(&*why));
    match (filed, here) {
        (Ok(Filed { job, window }), _) => format!("the site keeps this window as {job}/{window}"),
        (Err(why), Some(here)) => format!("the site does not keep this window, your own store does, as {here}: {why}"),
        (Err(why), None) => format!("the site does not keep this window either: {why}"),
    }
}

/// `trimtab list --controller HOST`.
pub fn list(controller: &str, site: &KeptOptions, json: bool) -> anyhow::Result<u8> {
    let jobs = kept(client(controller, site)?.jobs())?;
    if json {
        output::print_text(&serde_json::to_string_pretty(&jobs)?)?;
        return Ok(if jobs.jobs.is_empty() { PARTIAL } else { crate::exit_code::DONE });
    }
    if jobs.has_more {
        eprintln!("trimtab: there are older jobs, which the site does not list");
    }
    stored::show_list(&jobs.jobs.into_iter().map(listed).collect::<Vec<_>>())
}

/// `trimtab report JOB[/WINDOW] --controller HOST`.
pub fn report(
    controller: &str,
    site: &KeptOptions,
    window: Option<&str>,
    shown: stored::Shown<'_>,
) -> anyhow::Result<u8> {
    let text = window.context("which window of the site's? `trimtab list --controller HOST` shows the jobs")?;
    let client = client(controller, site)?;
    let report = match text.split_once('/') {
        Some((job, window)) => {
            let Ok(window) = window.parse::<u32>() else { bail!("{text}: after the slash comes a window's number") };
            kept(client.report(job, window))?
        }
        None => {
            let found = kept(client.job(text))?;
            let Some(newest) = found.job.newest else { bail!("the site keeps no window of {text} any more") };
            client.report(&found.job.id, newest.window)?
        }
    };
    stored::show_report(&report, shown)
}

/// `trimtab trigger JOB [NAME] --controller HOST`.
pub fn trigger(controller: &str, site: &KeptOptions, job: &str, name: &str) -> anyhow::Result<u8> {
    let reached = client(controller, site)?.trigger(job, name)?;
    output::print_text(&format!("{job}: {reached} heard the call"))?;
    Ok(crate::exit_code::DONE)
}

/// An answer; where there is nobody to ask, with the way that needs nobody.
fn kept<A>(answer: Result<A, SiteError>) -> anyhow::Result<A> {
    let own = "without --controller your own store is asked, which has the windows that you measured on this host";
    answer.map_err(|error| match error {
        away @ (SiteError::Unreachable { .. } | SiteError::NoAddress { .. } | SiteError::Slow { .. }) => {
            anyhow::Error::from(away).context(own)
        }
        other => other.into(),
    })
}

fn client(controller: &str, site: &KeptOptions) -> anyhow::Result<Client> {
    Ok(Client::of_command(controller, &site.of(controller).identity())?)
}

fn listed(job: JobLine) -> ListedJob {
    ListedJob {
        id: job.id,
        program: job.program,
        arguments: job.arguments,
        ranks: job.ranks,
        windows: job.windows,
        newest: job.newest.map(|window| ListedWindow {
            started_unix_s: window.started_unix_s,
            valid: window.valid,
            communication_fraction: window.communication_fraction,
            time_per_iteration_s: window.time_per_iteration_s,
            event: window.event.map(|event| event.kind),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_window_is_is_said_in_one_line() {
        let filed = || Ok(Filed { job: "app-7".to_owned(), window: 2 });
        let gone = || Err("can't be reached".into());
        for (filed, here, expected) in [
            (filed(), Some("app-1/0"), "keeps this window as app-7/2"),
            (gone(), Some("app-1/0"), "your own store does, as app-1/0: can't be reached"),
            (gone(), None, "either: can't be reached"),
        ] {
            let said = kept_where(filed, here);
            assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
        }
    }
}
