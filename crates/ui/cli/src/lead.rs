//! `trimtab lead`: leads one window for the controller that has started it, through its standard input and output.
//!
//! It has no identity and touches no process: agents of the job's nodes do, each as the job's owner.
//!
//! Next: `trimtab_standing::LedWay` for the controller's end; `window` for a window that a person leads.

use crate::arguments::{Arguments, Command};
use crate::exit_code::{DONE, ERROR};
use crate::output;
use crate::progress::Terminal;
use crate::window::window_options;
use anyhow::{Context, bail};
use clap::Parser;
use std::io::{stdin, stdout};
use trimtab_engine::{Engine, Found, ImageCache, Measured, Options, SlurmId, Spread, Window, own};
use trimtab_standing::{HostLog, LeadOrder, LedWay, WindowAsked};
use trimtab_types::report::{Event, EventKind};

/// The command's words in logs and in the report begin with this; who asked follows.
const COMMAND: &str = "api of";

/// Leads the window that the controller asks for.
pub fn lead(command_ns: u64) -> anyhow::Result<u8> {
    let (way, order) = LedWay::begin(Box::new(stdin()), Box::new(stdout()))?;
    let measured = measure(&way, &order, command_ns).and_then(|mut measured| {
        let filed = measured.file().context("the site's agents were not asked")?;
        filed.map_err(|why| anyhow::anyhow!("{}", trimtab_types::one_line(&*why)))
    });
    match measured {
        Ok(_) => Ok(DONE),
        Err(error) => {
            let why = output::chain(&error);
            way.failed(why.clone())?;
            eprintln!("trimtab: window of job {}: {why}", order.job);
            Ok(ERROR)
        }
    }
}

fn measure(way: &LedWay, order: &LeadOrder, command_ns: u64) -> anyhow::Result<Measured> {
    let id: SlurmId = order.job.parse()?;
    let spread = Spread::of_slurm(id, None)?;
    if spread.owner() != Some(order.owner) {
        bail!("job {id} is not user {}'s any more", order.owner);
    }
    let options = options(order, command_ns)?;
    let (terminal, cache) = (Terminal::new()?, ImageCache::of_user());
    let engine = Engine { listener: &terminal, audit: &HostLog, cache: &cache, store: None, nodes: Some(way) };
    Ok(engine.window(&Found::Spread(Box::new(spread)), &Window::new(options))?)
}

/// The options, read as those of `trimtab attach` are.
fn options(order: &LeadOrder, command_ns: u64) -> anyhow::Result<Options> {
    let WindowAsked { iterations, seconds, seconds_max, ranks, groups, .. } = &order.asked;
    let groups: Vec<&str> = groups.iter().map(|group| group.word()).collect();
    let given = [
        iterations.map(|count| format!("--iterations={count}")),
        seconds.map(|seconds| format!("--at-least={seconds}")),
        ranks.as_ref().map(|ranks| format!("--ranks={ranks}")),
        (!groups.is_empty()).then(|| format!("--group={}", groups.join(","))),
        Some(format!("--max-seconds={seconds_max}")),
        Some(format!("--slurm={}", order.job)),
    ];
    let words = ["trimtab", "attach"].map(str::to_owned).into_iter().chain(given.into_iter().flatten());
    let Command::Attach { mut options, .. } = Arguments::try_parse_from(words)?.command else {
        bail!("these are no options of a window");
    };
    options.event = Some(Event {
        kind: EventKind::Api,
        condition: "api".to_owned(),
        value: format!("asked for by {}", order.by),
        at_unix_s: own::unix_s(),
    });
    window_options(&options, &format!("{COMMAND} {}", order.by), command_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_engine::{Group, Length};

    #[test]
    fn what_is_asked_for_is_what_attach_would_do() {
        let order = |text: &str| LeadOrder {
            job: "4711.0".to_owned(),
            owner: 7,
            by: "scheduler 990".to_owned(),
            asked: serde_json::from_str(text).expect("a question"),
        };
        let of = |text: &str| options(&order(text), 0).expect("options");
        let usual = of("{}");
        assert!(matches!(usual.length, Length::AtLeast(seconds) if seconds == 0.2) && usual.max_seconds == 60.0);
        assert_eq!(usual.trigger, "api of scheduler 990");
        assert_eq!(usual.event.map(|event| event.value).as_deref(), Some("asked for by scheduler 990"));
        let given = of("{\"iterations\": 20, \"ranks\": \"0-3\", \"groups\": [\"comm\", \"io\"], \"seconds_max\": 9}");
        assert!(matches!(given.length, Length::Iterations(20)) && given.max_seconds == 9.0);
        assert_eq!((given.ranks.to_string().as_str(), given.groups), ("0-3", vec![Group::Comm, Group::Io]));
        assert!(matches!(of("{\"seconds\": 2}").length, Length::AtLeast(seconds) if seconds == 2.0));
    }
}
