//! Pages and JSON of `model links` and `forecast collective`; docs/links.md describes the fields.
//!
//! Next: `links`, which asks for them.

use serde_json::{Value, json};
use std::fmt::Write as _;
use trimtab_engine::links::{
    CollectiveAnswer, CollectiveAsked, Figure, HostLoad, HostPair, LinkFit, Links, Method, Segment, Time, Way,
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

/// `forecast collective --json`.
pub fn answer_as_json(asked: &CollectiveAsked, answer: &CollectiveAnswer, links: &Links) -> Value {
    json!({
        "version": JSON_VERSION,
        "collective": asked.collective,
        "ranks": asked.ranks,
        "bytes": asked.bytes,
        "hosts": answer.hosts,
        "mpi": answer.mpi,
        "method": answer.method,
        "time": answer.time,
        "recorded": answer.recorded,
        "messages": answer.messages,
        "no_messages": answer.no_messages,
        "windows": links.windows,
        "newest_unix_s": links.newest_unix_s,
        "because": because(asked, answer),
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
    let split =
        pair.transfer_s.zip(pair.wait_s).map_or("all came before anybody received".to_owned(), |(transfer, wait)| {
            format!("{} transfer, {} waiting", seconds(transfer), seconds(wait))
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
                digits(gap.value * 1e9),
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
    let known = |seconds_known: Option<f64>| seconds_known.map_or("not known".to_owned(), seconds);
    let _ = writeln!(
        text,
        "    o of the send {}, of the receive {}; L {}; sizes lie {:.1}% off, in the median{}",
        known(fit.send_overhead_s),
        known(fit.receive_overhead_s),
        known(fit.wire_latency_s),
        fit.error_median * 100.0,
        match fit.clock_error_s {
            error if error > 0.0 => format!("; clocks may add {} to each or take it away", seconds(error)),
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
pub fn answer(asked: &CollectiveAsked, answer: &CollectiveAnswer, links: &Links) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} of {} bytes on {} ranks of {}: {}",
        asked.collective.function(),
        asked.bytes,
        asked.ranks,
        answer.hosts.join(", "),
        time(&answer.time)
    );
    let _ = writeln!(text, "    from {} windows, {}", links.windows, answer.mpi);
    for line in because(asked, answer) {
        let _ = writeln!(text, "    {line}");
    }
    text
}

/// How it was derived, and what is not in it.
fn because(asked: &CollectiveAsked, answer: &CollectiveAnswer) -> Vec<String> {
    let mut lines = Vec::new();
    match (answer.method, &answer.recorded) {
        (Method::Recorded, Some(seen)) if seen.from_bytes == seen.to_bytes => {
            lines.push(format!("{} such collectives of {} bytes were seen", seen.calls, seen.from_bytes));
        }
        (Method::Recorded, Some(seen)) => lines.push(format!(
            "{} such collectives of {} and of {} bytes were seen",
            seen.calls, seen.from_bytes, seen.to_bytes
        )),
        (Method::Messages, Some(seen)) => lines.push(format!(
            "such collectives were seen of {} to {} bytes only: added up from messages",
            seen.from_bytes, seen.to_bytes
        )),
        _ => {
            lines.push("no such collective was seen on as many ranks of these hosts: added up from messages".to_owned())
        }
    }
    if let Some(made) = &answer.messages {
        let name = serde_json::to_value(made.algorithm).ok().and_then(|name| Some(name.as_str()?.replace('_', " ")));
        lines.push(format!("added up from messages ({}): {}", name.unwrap_or_default(), time(&made.time)));
    }
    if answer.method == Method::Messages {
        let hosts = u32::try_from(answer.hosts.len()).unwrap_or(u32::MAX).max(1);
        if hosts > 1 && asked.ranks > hosts {
            lines.push(format!("{} ranks of a host send through its link at once", asked.ranks.div_ceil(hosts)));
        }
        lines.push("without what a reduction computes, and without waiting for ranks that come late".to_owned());
    }
    if answer.time.is_outside {
        lines.push("beyond the sizes that were seen: the interval is wider".to_owned());
    }
    lines.extend(answer.no_messages.iter().map(|why| format!("not added up from messages: {why}")));
    lines
}

fn time(time: &Time) -> String {
    format!("{} ({} to {})", seconds(time.value_s), seconds(time.lower_s), seconds(time.upper_s))
}

fn figure(figure: &Figure) -> String {
    format!("{} ({} to {})", seconds(figure.value), seconds(figure.lower), seconds(figure.upper))
}

/// A time from nanoseconds up.
fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{} ns", digits(s * 1e9)),
        s if s < 1e-3 => format!("{} us", digits(s * 1e6)),
        s if s < 1.0 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} s", digits(s)),
    }
}

/// Three digits that count.
fn digits(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}
