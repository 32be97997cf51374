//! Pages and JSON of `model links` and `forecast collective`; docs/links.md describes the fields.
//!
//! Next: `links`, which asks for them.

use serde_json::{Value, json};
use std::fmt::Write as _;
use trimtab_controller::forecasts::loggp::{Figure, LinkFit, Segment};
use trimtab_controller::forecasts::{
    CollectiveMade, HostLoad, HostPair, Links, Way, interval_words, seconds_words, three_digits,
};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// The reason for which g is never told.
const NO_GAP: &str = "messages that follow each other at once would have to be seen, and each was timed by itself";

/// `model links --json`.
pub fn list_as_json(links: &Links) -> Value {
    json!({
        "version": JSON_VERSION,
        "windows": links.windows,
        "newest_unix_s": links.newest_unix_s,
        "pairs": links.pairs,
        "message_gap_s": Value::Null,
        "no_message_gap": NO_GAP,
        "loads": links.loads,
    })
}

/// The page of `model links`.
pub fn list(links: &Links) -> String {
    let mut text = String::new();
    if links.pairs.is_empty() {
        let _ = writeln!(
            text,
            "in {} windows no message was timed: measure iterations of a program that sends and receives in calls that return with \
             their message",
            links.windows
        );
    }
    links.pairs.iter().for_each(|pair| pair_lines(&mut text, pair));
    if !links.loads.is_empty() {
        let _ = writeln!(text, "\nload of all jobs that were measured together with the newest window");
    }
    links.loads.iter().for_each(|load| load_line(&mut text, load));
    text
}

fn pair_lines(text: &mut String, pair: &HostPair) {
    let [one, other] = &pair.hosts;
    let between = match pair.way {
        Way::SharedMemory => format!("{one}, shared memory"),
        Way::Network => format!("{one} - {other}"),
    };
    let split = pair
        .transfer_s
        .zip(pair.wait_s)
        .map_or("no call waited for one of them alone".to_owned(), |(transfer, wait)| {
            format!("{} transfer, {} waiting", seconds_words(transfer), seconds_words(wait))
        });
    let _ = writeln!(text, "{between}  {}  {} messages: {split}", pair.mpi, pair.messages);
    let Some(fit) = &pair.fit else {
        let _ = writeln!(text, "    no fit: {}", pair.no_fit.as_deref().unwrap_or("not known"));
        return;
    };
    fit.segments.iter().for_each(|segment| segment_line(text, segment));
    for change in &fit.breaks {
        let _ =
            writeln!(text, "    the protocol changes between {} and {} bytes", change.after_bytes, change.before_bytes);
    }
    overhead_line(text, fit);
}

fn segment_line(text: &mut String, segment: &Segment) {
    let gap = match &segment.gap_s_per_byte {
        Some(gap) => {
            let rate = |gap_s: f64| 8e-6 / gap_s;
            format!(
                "{} ns a byte ({:.4} Mbit/s, {:.4} to {:.4})",
                three_digits(gap.value * 1e9),
                rate(gap.value),
                rate(gap.upper),
                rate(gap.lower)
            )
        }
        None => "time of a byte not told by these sizes".to_owned(),
    };
    let _ = writeln!(
        text,
        "    {} to {} bytes: {} for the first byte, {gap}",
        segment.from_bytes,
        segment.to_bytes,
        figure(&segment.latency_s)
    );
}

fn overhead_line(text: &mut String, fit: &LinkFit) {
    let known = |seconds_known: Option<f64>| seconds_known.map_or("not known".to_owned(), seconds_words);
    let _ = writeln!(
        text,
        "    o of the send {}, of the receive {}; L {}; sizes lie {:.1}% off, in the median{}",
        known(fit.send_overhead_s),
        known(fit.receive_overhead_s),
        known(fit.wire_latency_s),
        fit.error_median * 100.0,
        match fit.clock_error_s {
            error if error > 0.0 => format!("; clocks may add {} to each or take it away", seconds_words(error)),
            _ => String::new(),
        }
    );
}

fn load_line(text: &mut String, load: &HostLoad) {
    let side = |bytes_per_s: f64, share: Option<f64>| {
        let share = share.map_or("share not known".to_owned(), |share| format!("{:.1}% of the time", share * 100.0));
        format!("{:.3} MB/s ({share})", bytes_per_s / 1e6)
    };
    let _ = writeln!(
        text,
        "    {}  {} jobs, sends {}, receives {}",
        load.host,
        load.jobs.len(),
        side(load.sent_bytes_per_s, load.sent_share),
        side(load.received_bytes_per_s, load.received_share)
    );
}

/// The page of `forecast collective`.
pub fn answer(made: &CollectiveMade) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} of {} bytes on {} ranks of {}: {}",
        made.collective.function(),
        made.bytes,
        made.ranks,
        made.hosts.join(", "),
        interval_words(&made.time)
    );
    let _ = writeln!(text, "    from {} windows, {}", made.windows, made.mpi);
    for line in &made.because {
        let _ = writeln!(text, "    {line}");
    }
    text
}

fn figure(figure: &Figure) -> String {
    format!("{} ({} to {})", seconds_words(figure.value), seconds_words(figure.lower), seconds_words(figure.upper))
}
