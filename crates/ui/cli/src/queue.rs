//! `forecast queue`: when Slurm would start a job that is submitted now, from the waits of the site's own past.
//!
//! Next: `trimtab-history` for the forecast; docs/forecasts.md for what is printed.

use crate::arguments::QueueForecastOptions;
use crate::backtest_jobs::log_of;
use crate::exit_code::{DONE, PARTIAL};
use crate::output::{self, time};
use crate::progress::Terminal;
use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::SystemTime;
use trimtab_engine::history::{AlikeWaits, Ask, Log, OfQueue, Queue, Sizes, Wrong, read_log};
use trimtab_engine::{SlurmPast, slurm_past};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Waits before tell nothing of today where no job has begun for so long, seconds.
const STALE_S: f64 = 7.0 * 86_400.0;
/// Queues that an error lists.
const LISTED_MAX: usize = 20;

/// `trimtab forecast queue`.
pub fn run(options: &QueueForecastOptions) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let past = Past::of(options)?;
    let queue = past.queue(options)?;
    let ask = past.ask(options, &queue)?;
    let made = Made::of(past, queue, ask);
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&as_json(&made))?)?,
        None => output::print_text(&page(&made))?,
    }
    Ok(if made.claim.is_ok() { DONE } else { PARTIAL })
}

/// Jobs of a site, and the moment at which a job is submitted.
struct Past {
    log: Log,
    now_s: f64,
    /// From where, for a reader.
    source: String,
    /// It is what Slurm knows now.
    is_live: bool,
    default_partition: Option<String>,
}

impl Past {
    fn of(options: &QueueForecastOptions) -> anyhow::Result<Past> {
        if let Some(path) = &options.jobs {
            let log = log_of(path, options.leave_out_wrong)?;
            let now_s = log.last_s();
            return Ok(Past {
                log,
                now_s,
                source: path.display().to_string(),
                is_live: false,
                default_partition: None,
            });
        }
        let terminal = Terminal::new()?;
        terminal.say("asking Slurm's accounting".to_owned());
        let asked = slurm_past(options.days);
        terminal.finish();
        let SlurmPast { jobs, default_partition } =
            asked.context("Slurm's accounting says nothing; a log of jobs will do, with --jobs FILE")?;
        let log = read_log(&jobs, Wrong::LeftOut).context("the answer of sacct")?;
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
        let source = format!("sacct, {} days", options.days);
        Ok(Past { log, now_s, source, is_live: true, default_partition })
    }

    /// The queue that the job is to wait in.
    fn queue(&self, options: &QueueForecastOptions) -> anyhow::Result<OfQueue> {
        let queues = self.log.queues();
        let Some(partition) = options.partition.as_ref().or(self.default_partition.as_ref()) else {
            return match queues.as_slice() {
                [one] => Ok(one.clone()),
                [] => Err(anyhow!("no job has a queue")),
                _ => Err(anyhow!("there are several queues: say --partition NAME, one of {}", listed(&queues))),
            };
        };
        let is_meant = |queue: &&OfQueue| {
            &queue.partition == partition && options.qos.as_ref().is_none_or(|quality| &queue.quality == quality)
        };
        // The one with most jobs is first.
        queues.iter().find(is_meant).cloned().ok_or_else(|| {
            let quality =
                options.qos.as_ref().map_or_else(String::new, |quality| format!(" with the quality {quality}"));
            anyhow!("no job was in the partition {partition}{quality}; there are {}", listed(&queues))
        })
    }

    fn ask(&self, options: &QueueForecastOptions, queue: &OfQueue) -> anyhow::Result<Ask> {
        let ranks = match (options.nodes, options.processors, self.log.sizes) {
            (Some(nodes), _, Some(Sizes::Nodes)) => nodes,
            (_, Some(processors), Some(Sizes::Processors)) => processors,
            (_, _, None) => bail!("{} does not say how large jobs are", self.source),
            (_, _, Some(Sizes::Processors)) => bail!("{} counts processors: say --processors N", self.source),
            (_, _, Some(Sizes::Nodes)) => bail!("{} counts nodes: say --nodes N", self.source),
        };
        let own = std::env::var("USER").ok().filter(|_| self.is_live);
        let user = match (&options.user, &own) {
            (Some(name), _) => Some(self.log.user(name).with_context(|| format!("no job is {name}'s"))?),
            (None, own) => own.as_ref().and_then(|name| self.log.user(name)),
        };
        Ok(Ask {
            requested_s: Some(options.time),
            ranks: Some(ranks),
            user,
            queue: Some(queue.number),
            ..Ask::default()
        })
    }
}

fn listed(queues: &[OfQueue]) -> String {
    let mut names: Vec<String> = Vec::new();
    for queue in queues {
        if !names.contains(&queue.partition) {
            names.push(queue.partition.clone());
        }
    }
    let more = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

/// A forecast, and what it was made of.
struct Made {
    past: Past,
    queue: OfQueue,
    ask: Ask,
    /// `None`: no job had begun.
    found: Option<Queue>,
    /// The interval, or why nothing is claimed.
    claim: anyhow::Result<(f64, f64)>,
}

impl Made {
    fn of(past: Past, queue: OfQueue, ask: Ask) -> Made {
        let found = past.log.queue(&ask, past.now_s);
        let claim = claim(&past, found.as_ref());
        Made { past, queue, ask, found, claim }
    }
}

fn claim(past: &Past, found: Option<&Queue>) -> anyhow::Result<(f64, f64)> {
    let found = found.context("no job has begun yet")?;
    let ago_s = past.now_s - found.latest_begin_s;
    let is_stale = past.is_live && ago_s > STALE_S;
    ensure!(!is_stale, "the latest job began {} ago: that says nothing of today", time(ago_s));
    found.interval_s.with_context(|| {
        format!(
            "{} have begun, {} wait now: too few have begun that were submitted while so many waited",
            jobs(found.begun),
            found.waiting
        )
    })
}

fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

fn page(made: &Made) -> String {
    let Made { past, queue, ask, found, claim } = made;
    let unit = if past.log.sizes == Some(Sizes::Nodes) { "node" } else { "processor" };
    let size = ask.ranks.unwrap_or_default();
    let limit = time(ask.requested_s.unwrap_or_default() as f64);
    let plural = if size == 1 { "" } else { "s" };
    let quality = if queue.quality.is_empty() { String::new() } else { format!(" ({})", queue.quality) };
    let place = if queue.partition.is_empty() { String::new() } else { format!(" in {}{quality}", queue.partition) };
    let mut text = format!("{size} {unit}{plural} for {limit}{place}");
    match (claim, found) {
        (Ok((low, high)), Some(found)) => {
            let _ = writeln!(
                text,
                ", if submitted now: begins in {} (90%: {} to {})",
                time(found.wait_s),
                time(*low),
                time(*high)
            );
        }
        (Err(why), _) => {
            let _ = writeln!(text, ": no claim: {why}");
        }
        (Ok(_), None) => {}
    }
    let Some(found) = found else { return text };
    let latest = time((past.now_s - found.latest_begin_s).max(0.0));
    let _ = writeln!(
        text,
        "{} wait now; {} have begun, the latest {latest} ago ({})",
        found.waiting, found.begun, past.source
    );
    text += &alike_line(&found.alike);
    text += &judged_line(found);
    text
}

fn alike_line(alike: &AlikeWaits) -> String {
    let AlikeWaits { queue_size_time, user_queue, user_queue_size_time, queue_size, queue, load } = *alike;
    format!(
        "from latest waits: {queue_size_time} of the same partition, size and limit, {queue_size} of partition and size, \
         {queue} of the partition, {user_queue} of the user there, {load} of all, while as many waited; \
         {user_queue_size_time} of such jobs of the user at any time\n"
    )
}

fn judged_line(found: &Queue) -> String {
    let Some(judged) = &found.judged else { return String::new() };
    let held = judged.share.map_or_else(String::new, |share| {
        format!("{:.1}% of {} waits lay inside such intervals; ", 100.0 * share, judged.with_interval)
    });
    format!(
        "so far: {held}median error {} (mean of the last ten: {}), of {}\n",
        time(judged.error_median_s),
        time(judged.last_ten_error_median_s),
        jobs(judged.judged)
    )
}

fn as_json(made: &Made) -> Value {
    let Made { past, queue, ask, found, claim } = made;
    let found = found.as_ref();
    let ends = claim.as_ref().ok();
    json!({
        "version": JSON_VERSION,
        "source": past.source,
        "partition": queue.partition,
        "quality": queue.quality,
        "size": ask.ranks,
        "sizes": past.log.sizes,
        "requested_s": ask.requested_s,
        "user_known": ask.user.is_some(),
        "now_s": past.now_s,
        "wait_s": found.filter(|_| ends.is_some()).map(|found| found.wait_s),
        "lower_s": ends.map(|ends| ends.0),
        "upper_s": ends.map(|ends| ends.1),
        "share_inside": ends.map(|_| 0.9),
        "no_claim": claim.as_ref().err().map(ToString::to_string),
        "waiting": found.map(|found| found.waiting),
        "begun": found.map(|found| found.begun),
        "latest_begin_s": found.map(|found| found.latest_begin_s),
        "alike": found.map(|found| found.alike),
        "judged": found.and_then(|found| found.judged.as_ref()),
        "left_out": past.log.left_out,
    })
}
