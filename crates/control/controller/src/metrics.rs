//! `GET /metrics`: what the site does, in the text format of Prometheus, version 0.0.4.
//!
//! No label names a user, a job or an argument: only hosts, kinds and outcomes do. Agents are asked at that moment, for a
//! second at most; what nobody answers is left out and is not 0.
//!
//! Next: `counts` for what is counted meanwhile; docs/api.md for each name.

use crate::asked::{Caller, Refusal, Shared, asker, off_thread};
use crate::counts::Counts;
use crate::state::Controller;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::fmt::Write as _;
use std::sync::Arc;
use trimtab_forecasts::{ByMethod, Outcome, by_method, outcome};
use trimtab_site::Notice;
use trimtab_site::weather::{AgentWeather, HostWeather};
use trimtab_store::History;
use trimtab_types::Rank;

/// The format, as Prometheus asks for it.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How a metric's value may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Only grow, until the controller starts anew.
    Counter,
    /// Anything.
    Gauge,
}

/// A value with its labels.
struct Sample {
    labels: String,
    value: f64,
}

impl Sample {
    fn of(labels: &[(&str, &str)], value: f64) -> Sample {
        let labels: Vec<String> = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        Sample { labels: if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }, value }
    }
}

/// A label's value: backslashes, quotes and ends of lines are written with a backslash.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Metrics as text.
#[derive(Default)]
struct Page(String);

impl Page {
    /// One metric with its samples; without any it is left out.
    fn metric(&mut self, name: &str, kind: Kind, help: &str, samples: impl IntoIterator<Item = Sample>) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        for (place, Sample { labels, value }) in samples.into_iter().enumerate() {
            if place == 0 {
                let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
            }
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    fn one(&mut self, name: &str, help: &str, value: f64) {
        self.metric(name, Kind::Gauge, help, [Sample::of(&[], value)]);
    }
}

/// `GET /metrics`.
pub(crate) async fn show(State(controller): Shared, caller: Caller) -> Result<impl IntoResponse, Refusal> {
    asker(&caller)?;
    let page = off_thread(move || {
        let mut page = Page::default();
        nodes(&mut page, &controller)?;
        kept(&mut page, &controller)?;
        counted(&mut page, &controller.counts);
        errors(&mut page, &controller)?;
        Ok(page.0)
    });
    Ok(([(CONTENT_TYPE, FORMAT)], page.await?))
}

/// Counts forecasts on their way through.
pub(crate) async fn count_forecasts(
    State(controller): State<Arc<Controller>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let answer = next.run(request).await;
    controller.counts.forecast(&path, answer.status().is_success());
    answer
}

fn nodes(page: &mut Page, controller: &Controller) -> Result<(), Refusal> {
    let (members, answers) = {
        let mut root = controller.root();
        let members = root.members();
        let answers = root.notify(&Notice::Weather { nice: 0 }, members.clone())?;
        (members, answers)
    };
    let (all, going) = {
        let state = controller.state();
        (state.places.all().len(), state.windows.count())
    };
    let connected = (0..all).filter(|index| members.contains(Rank(*index as u32))).count();
    let of = |state: &str, count: usize| Sample::of(&[("state", state)], count as f64);
    let help = "Nodes whose agents have called since the controller began.";
    page.metric("trimtab_nodes", Kind::Gauge, help, [of("connected", connected), of("gone", all - connected)]);
    page.one("trimtab_windows_going", "Windows that wait for agents or go on.", going as f64);
    page.one("trimtab_up_seconds", "Time since the controller began.", controller.began.elapsed().as_secs_f64());
    let heard = answers.values().filter_map(|answer| postcard::from_bytes::<AgentWeather>(&answer.bytes).ok()?.weather);
    let heard: Vec<HostWeather> = heard.collect();
    let by_host = |value: fn(&HostWeather) -> f64| {
        heard.iter().map(move |weather| Sample::of(&[("host", &weather.host)], value(weather)))
    };
    let help = "Share of one processor that a host's sensors took since they began.";
    page.metric("trimtab_sensors_cpu_ratio", Kind::Gauge, help, by_host(|weather| weather.cost_share));
    let help = "Age of a host's latest look at its weather.";
    page.metric("trimtab_weather_age_seconds", Kind::Gauge, help, by_host(|weather| weather.age_s));
    Ok(())
}

fn kept(page: &mut Page, controller: &Controller) -> Result<(), Refusal> {
    let (jobs, windows) = controller.store().counts()?;
    page.one("trimtab_jobs_kept", "Jobs whose windows the site keeps.", jobs as f64);
    page.one("trimtab_windows_kept", "Windows that the site keeps.", windows as f64);
    Ok(())
}

fn counted(page: &mut Page, counts: &Counts) {
    let windows =
        counts.windows().into_iter().map(|(outcome, count)| Sample::of(&[("outcome", outcome)], count as f64));
    let help =
        "Windows begun or refused by the controller, orders that a node's agent followed or refused, reports kept.";
    page.metric("trimtab_windows_total", Kind::Counter, help, windows);
    let forecasts = counts.forecasts().into_iter();
    let forecasts =
        forecasts.map(|(kind, outcome, count)| Sample::of(&[("kind", kind), ("outcome", outcome)], count as f64));
    page.metric("trimtab_forecasts_total", Kind::Counter, "Forecasts asked for, by kind.", forecasts);
}

/// The errors of forecasts whose outcome is known: of ends of jobs, which the store judges.
fn errors(page: &mut Page, controller: &Controller) -> Result<(), Refusal> {
    let all = controller.store().forecasts()?;
    let outcomes: Vec<Outcome> = all.iter().filter_map(outcome).collect();
    let methods = by_method(&outcomes);
    let of = |value: fn(&ByMethod) -> Option<f64>| {
        let sample = move |one: &ByMethod| Some(Sample::of(&[("kind", "job"), ("method", &one.method)], value(one)?));
        methods.iter().filter_map(sample).collect::<Vec<_>>()
    };
    for (name, help, value) in [
        (
            "trimtab_forecasts_judged",
            "Forecasts whose outcome is known.",
            (|one| Some(one.count as f64)) as fn(&ByMethod) -> _,
        ),
        ("trimtab_forecast_error_median_ratio", "Median error of these, of the whole run.", |one| one.error_median),
        ("trimtab_forecast_error_worst_ratio", "Worst error of these, of the whole run.", |one| one.error_worst),
        ("trimtab_forecast_intervals_held_ratio", "Share of intervals of 90% that held.", |one| Some(one.held)),
    ] {
        page.metric(name, Kind::Gauge, help, of(value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_s_value_can_not_break_its_line() {
        let mut page = Page::default();
        page.metric("a_ratio", Kind::Gauge, "Help.", [Sample::of(&[("host", "a\"b\\c\nd")], 0.5)]);
        page.metric("none_total", Kind::Counter, "Help.", []);
        assert_eq!(page.0, "# HELP a_ratio Help.\n# TYPE a_ratio gauge\na_ratio{host=\"a\\\"b\\\\c\\nd\"} 0.5\n");
    }
}
