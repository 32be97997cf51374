//! A site's standing parts: its authority, its controller, the agents of its nodes.
//!
//! Next: `trimtab-site` for identities, `trimtab-controller` and `trimtab_agent::standing` for what runs.

use crate::arguments::site::{AgentOptions, ControllerOptions, SiteCommand};
use crate::{DONE, cluster, output};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_agent::standing::{Standing, stand};
use trimtab_controller::{Options, serve};
use trimtab_site::{Authority, Identity, Role};

/// `trimtab site`.
pub fn authority(command: &SiteCommand) -> anyhow::Result<u8> {
    match command {
        SiteCommand::Init { folder, days } => {
            let authority = Authority::create(folder)?;
            let controller = issue(&authority, &Role::Controller, *days, folder)?;
            output::print_text(&format!(
                "{}: the site's authority; keep this folder where only administrators are\n\
                 {}: for the controller, as /etc/trimtab/identity.pem there\n\
                 Next: trimtab site issue {} node:HOST user:UID",
                folder.display(),
                controller.display(),
                folder.display()
            ))?;
        }
        SiteCommand::Issue { folder, roles, days, output } => {
            let authority = Authority::open(folder)?;
            for role in roles {
                let path = issue(&authority, role, *days, output.as_deref().unwrap_or(folder))?;
                output::print_text(&format!("{}: for {role}, valid for {days} days", path.display()))?;
            }
        }
    }
    Ok(DONE)
}

fn issue(authority: &Authority, role: &Role, days: u32, folder: &Path) -> anyhow::Result<PathBuf> {
    let name = match role {
        Role::Controller => "controller.pem".to_owned(),
        Role::Node { host } => format!("node-{host}.pem"),
        Role::User { uid } => format!("user-{uid}.pem"),
        Role::Administrator { uid } => format!("administrator-{uid}.pem"),
    };
    let path = folder.join(name);
    authority.issue(role, Duration::from_secs(u64::from(days) * 24 * 3600), &path)?;
    Ok(path)
}

/// `trimtab controller`.
pub fn controller(options: &ControllerOptions) -> anyhow::Result<u8> {
    let identity = Identity::load(&options.identity)?;
    let options = Options {
        identity,
        listen: options.listen,
        listen_tree: options.listen_tree,
        fan_out: options.fan_out as usize,
    };
    serve(options, |api, tree| eprintln!("trimtab: the controller is asked at {api}; agents call {tree}"))?;
    Ok(DONE)
}

/// `trimtab agent`.
pub fn agent(options: &AgentOptions) -> anyhow::Result<u8> {
    let Some(controller) = &options.controller else {
        return cluster::agent(
            options
                .ticket
                .as_deref()
                .context("an agent of what? give --controller HOST to stand by; leads give --ticket by themselves")?,
        );
    };
    let identity = Identity::load(&options.identity)?;
    stand(Standing { controller: controller.clone(), identity, port: options.port })?;
    Ok(DONE)
}
