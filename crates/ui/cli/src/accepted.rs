//! `trimtab site accept`, `withdraw` and `accepted`: which schedulers may have one's jobs measured; `arguments`: how a site keeps
//! those of one's programs.
//!
//! Next: `trimtab_controller::measured` for what is said; docs/api.md for what an accepted scheduler may do.

use crate::arguments::site::{ArgumentsWord, SiteOptions};
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use anyhow::{Context, bail};
use std::path::PathBuf;
use trimtab_controller::measured::{Acceptance, Acceptances};
use trimtab_controller::{CONTROLLER_VARIABLE, Client, Role};
use trimtab_engine::own;

/// Accepts schedulers, or accepts them no more.
pub fn change(schedulers: &[Role], site: &SiteOptions, accepts: bool) -> anyhow::Result<u8> {
    let all = schedulers.iter().map(|role| match role {
        Role::Scheduler { uid } => Ok(*uid),
        role => bail!("{role} is no scheduler: give scheduler:UID, with the number of the user as which it runs"),
    });
    let all = all.collect::<anyhow::Result<Vec<u32>>>()?;
    let client = client(site)?;
    for uid in all {
        match accepts {
            true => client.accept(uid)?,
            false => client.withdraw(uid)?,
        }
        let may = if accepts { "may have your jobs measured and see them" } else { "may so no more" };
        output::print_text(&format!("scheduler {uid} {may}"))?;
    }
    Ok(DONE)
}

/// Lists who is accepted.
pub fn list(site: &SiteOptions, json: Option<&PathBuf>) -> anyhow::Result<u8> {
    let all: Acceptances = client(site)?.acceptances()?;
    match json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&all)?)?,
        None if all.accepted.is_empty() => output::print_text("no scheduler is accepted")?,
        None => all.accepted.iter().try_for_each(|one| output::print_text(&line(one)))?,
    }
    Ok(if all.accepted.is_empty() { PARTIAL } else { DONE })
}

/// Says how arguments are kept, or changes it.
pub fn arguments(how: Option<ArgumentsWord>, site: &SiteOptions) -> anyhow::Result<u8> {
    let client = client(site)?;
    if let Some(how) = how {
        client.keep_arguments(how == ArgumentsWord::Keep)?;
    }
    output::print_text(match client.arguments_kept()?.kept {
        true => {
            "the site keeps your programs' arguments as they are; `trimtab site arguments hash` hides them, earlier ones too"
        }
        false => {
            "the site keeps your programs' arguments as hashes; `trimtab site arguments keep` has it keep later ones as they are"
        }
    })?;
    Ok(DONE)
}

fn line(one: &Acceptance) -> String {
    let Acceptance { owner, scheduler, since_unix_s } = one;
    let ago_s = (own::unix_s() - since_unix_s).max(0.0);
    format!("scheduler {scheduler} by user {owner}, {} ago", output::time(ago_s))
}

fn client(site: &SiteOptions) -> anyhow::Result<Client> {
    let controller = site.controller();
    let controller =
        controller.with_context(|| format!("which site? Give --controller HOST, or set {CONTROLLER_VARIABLE}"))?;
    Ok(Client::of_command(&controller, &site.identity())?)
}
