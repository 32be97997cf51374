//! `trimtab tree`: who is connected to whom, how long the way is, what waits, and what was survived.
//!
//! Next: `trimtab_controller::api::Tree`, which is what `--json` prints.

use crate::arguments::site::SiteOptions;
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use anyhow::Context;
use std::collections::BTreeMap;
use trimtab_controller::Client;
use trimtab_controller::api::{Health, Member, Tree};

/// Asks the controller and shows what it says.
pub fn show(site: &SiteOptions, json: bool) -> anyhow::Result<u8> {
    let controller =
        site.controller().context("which controller? give --controller HOST, or set TRIMTAB_CONTROLLER")?;
    let tree = Client::of_command(&controller, &site.identity())?.tree()?;
    if json {
        output::print_text(&serde_json::to_string_pretty(&tree)?)?;
    } else {
        output::print_text(&text(&tree))?;
    }
    let is_whole = !tree.agents.is_empty() && tree.agents.iter().all(|agent| agent.health.is_some());
    Ok(if is_whole { DONE } else { PARTIAL })
}

/// One line for each part, below whoever it calls.
fn text(tree: &Tree) -> String {
    let mut below: BTreeMap<Option<u32>, Vec<&Member>> = BTreeMap::new();
    let mut away = Vec::new();
    for agent in &tree.agents {
        match &agent.health {
            Some(health) => below.entry(health.parent).or_default().push(agent),
            None => away.push(agent),
        }
    }
    let service = &tree.controller;
    let mut lines = vec![format!(
        "{}  controller {}  up {}  windows {}",
        service.host,
        service.version,
        span(service.up_s),
        service.windows
    )];
    // Whoever names a parent that did not answer stands right below the controller, with that said.
    let answered: Vec<u32> = below.values().flatten().map(|agent| agent.index).collect();
    let tops: Vec<Option<u32>> =
        below.keys().copied().filter(|parent| parent.is_none_or(|parent| !answered.contains(&parent))).collect();
    for top in tops {
        put(&below, top, 1, &mut lines);
    }
    let lost = |agent: &&Member| if agent.connected { "did not answer" } else { "is not connected" };
    lines.extend(away.iter().map(|agent| format!("  {}  {} {}", agent.host, agent.address, lost(agent))));
    let troubles = tree.agents.iter().filter_map(|agent| Some((&agent.host, agent.health.as_ref()?.trouble.as_ref()?)));
    lines.extend(troubles.map(|(host, trouble)| format!("latest trouble of {host}: {trouble}")));
    let here = tree.agents.len() - away.len();
    lines.push(format!(
        "{here} of {} agents answered; failures survived: {}",
        tree.agents.len(),
        tree.failures_survived
    ));
    lines.join("\n")
}

fn put(below: &BTreeMap<Option<u32>, Vec<&Member>>, parent: Option<u32>, depth: usize, lines: &mut Vec<String>) {
    // Deeper than any tree can be: what agents say of their parents need not fit together at one moment.
    if depth > below.len() + 1 {
        return;
    }
    for agent in below.get(&parent).into_iter().flatten() {
        let Some(health) = &agent.health else { continue };
        let round_trip_ms = agent.round_trip_us.map_or("?".to_owned(), |us| format!("{:.2}", us as f64 / 1000.0));
        lines.push(format!(
            "{}{}  {round_trip_ms} ms  queue {} (most {})  survived {}{}  up {}  cpu {:.1} s  {} MB  windows {}",
            "  ".repeat(depth),
            agent.host,
            health.queue,
            health.queue_max,
            health.failures_survived,
            alone(health),
            span(health.up_s),
            health.cpu_ms as f64 / 1000.0,
            health.resident_kb.map_or_else(|| "-".to_owned(), |kb| (kb / 1024).to_string()),
            health.windows,
        ));
        put(below, Some(agent.index), depth + 1, lines);
    }
}

/// The longest that it was without anybody above it, if ever.
fn alone(health: &Health) -> String {
    match health.failures_survived {
        0 => String::new(),
        _ => format!(" (at most {} ms alone)", health.alone_us_max.div_ceil(1000)),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_controller::api::{SCHEMA, Service};

    fn member(index: u32, parent: Option<Option<u32>>) -> Member {
        let survived = u64::from(index == 2);
        let more = Health { failures_survived: survived, alone_us_max: 11_001, ..Health::default() };
        let health = parent.map(|parent| Health { parent, up_s: 7300, ..more });
        Member {
            index,
            host: format!("n{index}"),
            address: ([10, 0, 0, 1], 7558).into(),
            connected: index != 3,
            round_trip_us: health.as_ref().map(|_| 412),
            health,
        }
    }

    #[test]
    fn a_tree_is_drawn_below_the_controller_and_who_is_away_is_said() {
        let agents = vec![
            member(0, Some(None)),
            member(1, Some(Some(0))),
            member(2, Some(Some(4))),
            member(3, None),
            member(4, None),
        ];
        let controller =
            Service { host: "head".into(), version: "1".into(), up_s: 5, children: 1, windows: 0, trouble: None };
        let shown = text(&Tree { schema: SCHEMA, controller, agents, failures_survived: 2 });
        let rest = "0.41 ms  queue 0 (most 0)  survived 0  up 2 h  cpu 0.0 s  - MB  windows 0";
        let expected = [
            "head  controller 1  up 5 s  windows 0".to_owned(),
            format!("  n0  {rest}"),
            format!("    n1  {rest}"),
            format!("  n2  {}", rest.replace("survived 0", "survived 1 (at most 12 ms alone)")),
            "  n3  10.0.0.1:7558 is not connected".to_owned(),
            "  n4  10.0.0.1:7558 did not answer".to_owned(),
            "3 of 5 agents answered; failures survived: 2".to_owned(),
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn agents_that_name_each_other_as_parents_end() {
        let agents = vec![member(0, Some(Some(1))), member(1, Some(Some(0)))];
        let controller =
            Service { host: "head".into(), version: "1".into(), up_s: 5, children: 1, windows: 0, trouble: None };
        let shown = text(&Tree { schema: SCHEMA, controller, agents, failures_survived: 0 });
        assert!(shown.ends_with("2 of 2 agents answered; failures survived: 0"), "{shown}");
    }
}
