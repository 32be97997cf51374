//! A site's standing parts: its authority, its controller, the agents of its nodes.
//!
//! Next: `trimtab-controller` for identities and the service, `trimtab_standing::standing` for what runs on nodes.

use crate::accepted;
use crate::arguments::site::{AgentOptions, ControllerOptions, SiteCommand};
use crate::exit_code::DONE;
use crate::output;
use anyhow::Context;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use trimtab_controller::{Authority, Identity, LeadProcess, Machine, NoJob, Options, REVOKED_FILE, Role, RunningJob};
use trimtab_controller::{Serial, SlurmJobs, serve};
use trimtab_engine::{BoxError, SlurmError, SlurmId, SlurmPast, Spread, slurm_past};
use trimtab_standing::standing::{Standing, stand};
use trimtab_standing::{AUDIT_VARIABLE, user_name};
use trimtab_store::Store;
use trimtab_types::one_line;

/// How long a lead that has nothing more to say may take to end.
const LEAD_END_MAX: Duration = Duration::from_secs(5);
const LEAD_LOOK: Duration = Duration::from_millis(20);

/// `trimtab site`.
pub fn authority(command: &SiteCommand) -> anyhow::Result<u8> {
    match command {
        SiteCommand::Init { folder, days } => {
            let authority = Authority::create(folder)?;
            let controller = Authority::file_of(&Role::Controller, folder);
            issue(&authority, &Role::Controller, *days, &controller)?;
            output::print_text(&format!(
                "{}: the site's authority; keep this folder where only administrators are\n\
                 {}: for the controller, as /etc/trimtab/controller.pem on its host (root, mode 600)\n\
                 Next: trimtab site issue {} node:HOST user:UID",
                folder.display(),
                controller.display(),
                folder.display()
            ))?;
        }
        SiteCommand::Issue { folder, roles, days, output } => {
            let authority = Authority::open(folder)?;
            for role in roles {
                let path = Authority::file_of(role, output.as_deref().unwrap_or(folder));
                let is_renewed = path.exists();
                let serial = issue(&authority, role, *days, &path)?;
                output::print_text(&format!("{}: for {role}, valid for {days} days, serial {serial}", path.display()))?;
                if is_renewed {
                    output::print_text("the identity that was in this file stays valid until it ends or is revoked")?;
                }
            }
        }
        SiteCommand::Revoke { folder, whom, output } => {
            let authority = Authority::open(folder)?;
            for whom in whom {
                revoke(&authority, whom, output.as_deref())?;
            }
        }
        SiteCommand::Accept { schedulers, site } => return accepted::change(schedulers, site, true),
        SiteCommand::Withdraw { schedulers, site } => return accepted::change(schedulers, site, false),
        SiteCommand::Arguments { how, site } => return accepted::arguments(*how, site),
        SiteCommand::Accepted { site, json } => return accepted::list(site, json.as_ref()),
    }
    Ok(DONE)
}

fn revoke(authority: &Authority, whom: &str, list: Option<&Path>) -> anyhow::Result<()> {
    let (revoked, list) = authority.revoke(whom, list)?;
    for noted in &revoked {
        output::print_text(&format!("{} with serial {} is revoked", noted.role, noted.serial))?;
    }
    let before = if revoked.is_empty() { format!("{whom} was revoked before; ") } else { String::new() };
    output::print_text(&format!(
        "{before}{}: the list; bring it to the controller's host, as {REVOKED_FILE} there; agents get it from the controller",
        list.display()
    ))
}

fn issue(authority: &Authority, role: &Role, days: u32, path: &Path) -> anyhow::Result<Serial> {
    Ok(authority.issue(role, Duration::from_secs(u64::from(days) * 24 * 3600), path)?)
}

/// `trimtab controller`.
pub fn controller(options: &ControllerOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let store = Store::open_site(store.as_deref())?;
    eprintln!("trimtab: jobs and reports are kept in {}", store.path().display());
    let identity = Identity::load(&options.identity)?.refusing(&options.revoked)?;
    // Its service's user has no home; the store's folder is its own.
    let named = std::env::var_os(AUDIT_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let audit = named.unwrap_or_else(|| store.path().with_file_name("audit.jsonl"));
    let options = Options {
        identity,
        audit,
        listen: options.listen,
        listen_tree: options.listen_tree,
        fan_out: options.fan_out as usize,
        store,
        machine: Machine { running_job, lead, slurm_jobs, user_name },
    };
    serve(options, |api, tree| eprintln!("trimtab: the controller is asked at {api}; agents call {tree}"))?;
    Ok(DONE)
}

fn running_job(text: &str) -> Result<RunningJob, NoJob> {
    let id: SlurmId = text.parse().map_err(|_| NoJob::NotSlurm(text.to_owned()))?;
    let job = Spread::of_slurm(id, None).map_err(|error| {
        let why = one_line(&error);
        match error {
            SlurmError::NoSuchJob { .. } | SlurmError::Ended { .. } => NoJob::Unknown(why),
            SlurmError::Pending { .. }
            | SlurmError::Suspended { .. }
            | SlurmError::SeveralParts { .. }
            | SlurmError::NoSuchStep { .. } => NoJob::NotNow(why),
            _ => NoJob::Silent(why),
        }
    })?;
    let owner = job.owner().ok_or_else(|| NoJob::Silent(format!("Slurm does not say whose job {id} is")))?;
    Ok(RunningJob { id: text.to_owned(), owner })
}

/// Starts this program as the lead of a window.
fn lead() -> std::io::Result<LeadProcess> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    let mut child = command.arg("lead").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(hears), Some(says)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(std::io::Error::other("a lead without pipes"));
    };
    // Nothing else ever has this process's number behind it.
    let own = rustix::process::Pid::from_child(&child);
    let process = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty())?;
    let interrupt = move || {
        let _over = rustix::process::pidfd_send_signal(&process, rustix::process::Signal::INT);
    };
    let end = move || {
        let until = Instant::now() + LEAD_END_MAX;
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(LEAD_LOOK);
        }
        let _ended = child.kill();
        let _reaped = child.wait();
    };
    Ok(LeadProcess { says: Box::new(says), hears: Box::new(hears), interrupt: Box::new(interrupt), end: Box::new(end) })
}

fn slurm_jobs(days: u32) -> Result<SlurmJobs, BoxError> {
    let SlurmPast { jobs, default_partition } = slurm_past(days)?;
    Ok(SlurmJobs { jobs, default_partition })
}

/// `trimtab agent --ticket -`; `place` is its own among the ticket's.
fn of_ticket(ticket: &Path, place: Option<usize>) -> anyhow::Result<u8> {
    let mut from: Box<dyn Read> = match ticket == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(ticket).with_context(|| format!("can't read {}", ticket.display()))?),
    };
    trimtab_standing::serve(&mut from, place)?;
    Ok(DONE)
}

/// `trimtab agent`.
pub fn agent(options: &AgentOptions) -> anyhow::Result<u8> {
    let Some(controller) = &options.controller else {
        let ticket = options.ticket.as_deref();
        let ticket = ticket
            .context("an agent of what? give --controller HOST to stand by; leads give --ticket by themselves")?;
        return of_ticket(ticket, options.place);
    };
    let identity = Identity::load(&options.identity)?.refusing(&options.revoked)?;
    stand(Standing { controller: controller.clone(), identity, port: options.port })?;
    Ok(DONE)
}
