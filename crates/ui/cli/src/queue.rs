//! `forecast queue`: when Slurm would start a job that is submitted now, from the waits of the site's own past.
//!
//! Next: `trimtab-forecasts` for the forecast; docs/forecasts.md for what is printed.

use crate::arguments::QueueForecastOptions;
use crate::backtest_jobs::log_of;
use crate::exit_code::{DONE, PARTIAL};
use crate::output::{self, time};
use crate::progress::Terminal;
use anyhow::Context;
use std::fmt::Write as _;
use std::time::SystemTime;
use trimtab_controller::forecasts::{Past, QueueMade, QueueQuestion};
use trimtab_engine::history::{AlikeWaits, Queue, Sizes, Wrong, read_log};
use trimtab_engine::{SlurmPast, slurm_past};

/// `trimtab forecast queue`.
pub fn run(options: &QueueForecastOptions) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let past = past_of(options)?;
    let made = QueueMade::of(&past, &question(options, &past))?;
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&made.answer())?)?,
        None => output::print_text(&page(&made))?,
    }
    Ok(if made.claim.is_ok() { DONE } else { PARTIAL })
}

fn past_of(options: &QueueForecastOptions) -> anyhow::Result<Past> {
    if let Some(path) = &options.jobs {
        let log = log_of(path, options.leave_out_wrong)?;
        let now_s = log.last_s();
        return Ok(Past { log, now_s, source: path.display().to_string(), is_live: false, default_partition: None });
    }
    let terminal = Terminal::new()?;
    terminal.say("asking Slurm's accounting".to_owned());
    let asked = slurm_past(options.days);
    terminal.finish();
    let SlurmPast { jobs, default_partition } =
        asked.context("Slurm's accounting says nothing; a log of jobs will do, with --jobs FILE")?;
    let log = read_log(&jobs, Wrong::LeftOut).context("the answer of sacct")?;
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
    Ok(Past { log, now_s, source: format!("sacct, {} days", options.days), is_live: true, default_partition })
}

fn question(options: &QueueForecastOptions, past: &Past) -> QueueQuestion {
    QueueQuestion {
        nodes: options.nodes,
        processors: options.processors,
        requested_s: options.time,
        partition: options.partition.clone(),
        quality: options.qos.clone(),
        user: options.user.clone(),
        own: std::env::var("USER").ok().filter(|_| past.is_live),
    }
}

fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

fn page(made: &QueueMade<'_>) -> String {
    let QueueMade { past, queue, ask, found, claim } = made;
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
