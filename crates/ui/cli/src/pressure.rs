//! `model pressure`: how a program answers to pressure on processors, cache and memory, and how much it makes; and this host's scale
//! for it.
//!
//! Next: `trimtab-engine`'s `pressed` for how it is measured; `corun`, which predicts by it; docs/forecasts.md describes the output.

use crate::arguments::model::{PressProbeOptions, PressureOptions};
use crate::corun_given::{Source, given};
use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::output::time;
use crate::progress::Terminal;
use crate::{departed, output};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_controller::forecasts::{PROFILE_VERSION, ProfileKept, pressured};
use trimtab_engine::corun::{Between, Curve, Felt, Place};
use trimtab_engine::sensors::{Pressed, PressureOrder, press};
use trimtab_engine::{
    BoxError, Engine, Found, HostScale, KnownJob, Length, Options, Pressing, Window, host_name, host_scale, own,
    usual_options,
};
use trimtab_store::{History, KeptPressure, Pressured};
use trimtab_types::report::{LoopPlace, Report};

/// The hidden command that is a probe.
pub const PROBE_COMMAND: &str = "press-probe";

/// `trimtab model pressure [JOB]`.
pub fn run(options: &PressureOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let kept = Kept::open(store.as_deref())?;
    match &options.job {
        None => host(options, &kept),
        Some(job) => program(options, &kept, job),
    }
}

/// The probe itself.
pub fn probe(options: &PressProbeOptions) -> anyhow::Result<u8> {
    let pressed = Pressed::of_word(&options.pressed).context("a probe presses on processor, cache or memory")?;
    let order = PressureOrder {
        pressed,
        level: options.level,
        wanted: options.wanted,
        processors: options.processors.clone(),
        seconds: options.seconds,
    };
    press(&order, options.bytes, &mut std::io::stdin().lock(), &mut std::io::stdout().lock())?;
    Ok(DONE)
}

fn start(order: &PressureOrder, bytes: u64) -> Command {
    // A file that was replaced meanwhile is still this program.
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")));
    let processors: Vec<String> = order.processors.iter().map(u32::to_string).collect();
    command.arg(PROBE_COMMAND).args(["--pressed", order.pressed.word()]);
    command.args(["--level", &order.level.to_string(), "--wanted", &order.wanted.to_string()]);
    command.args(["--processors", &processors.join(","), "--bytes", &bytes.to_string()]);
    command.args(["--seconds", &order.seconds.to_string()]);
    command
}

fn host(options: &PressureOptions, kept: &Kept) -> anyhow::Result<u8> {
    let terminal = Terminal::new()?;
    eprintln!("trimtab: probes press beside each other on all processors for about 15 s: this host should be quiet");
    let scale = host_scale(&start, &terminal)?;
    terminal.finish();
    let content = serde_json::to_string(&scale)?;
    let row = KeptPressure {
        host: host_name(),
        of: Pressured::default(),
        program: String::new(),
        made_unix_s: own::unix_s(),
        content,
    };
    kept.store().note_pressure(&row)?;
    let whole = json!({ "version": PROFILE_VERSION, "host": row.host, "made_unix_s": row.made_unix_s, "scale": scale });
    show(options.json.as_deref(), &whole, &host_page(&scale))?;
    Ok(if scale.cache.is_some() && scale.memory.is_some() { DONE } else { PARTIAL })
}

fn scale_kept(kept: &Kept) -> anyhow::Result<HostScale> {
    let row = kept.store().pressure(&host_name(), &Pressured::default())?;
    let row = row.context(
        "how probes press on this host is not known yet: run `trimtab model pressure` without a job first, while the host is quiet",
    )?;
    serde_json::from_str(&row.content).context("this host's scale can't be read: run `trimtab model pressure` again")
}

fn program(options: &PressureOptions, kept: &Kept, job: &str) -> anyhow::Result<u8> {
    let parts = Parts::of(None);
    let terminal = Terminal::new()?;
    let engine = parts.engine(&terminal, Some(kept));
    let Source::Live(found) = given(&engine, kept, job)?.source else {
        bail!("{job} does not run: a profile is made of a job that does");
    };
    let scale = scale_kept(kept)?;
    let pressing = Pressing { each_s: options.each, within_s: options.within, seccomp_ok: options.seccomp_ok };
    let cost = format!(
        "{} windows of {} s or longer beside probes that take up to half of each processor and press on cache and memory, {} s at \
         most: the job is slowed meanwhile, often to half its pace",
        pressing.windows(),
        options.each,
        options.within
    );
    ensure!(options.yes, "{cost}; add --yes if its owner agrees. Nothing was done");
    eprintln!("trimtab: {cost}");
    let first = first_window(&engine, &found, options)?;
    ensure!(
        pressured(&first).is_some(),
        "{} has no build id, so its next run could not be told from others",
        first.job.program
    );
    let unkept = Unkept(kept);
    let beside = Engine { store: Some(&unkept), ..engine };
    let answer = beside.pressed(&found, &first, &scale, pressing, &start)?;
    terminal.finish();
    let content = ProfileKept {
        version: PROFILE_VERSION,
        profile: answer.profile,
        windows: answer.windows,
        took_s: answer.took_s,
        cost_s: answer.cost_s,
        because: answer.because,
    };
    let row = content.row(&first, &host_name(), own::unix_s())?;
    kept.store().note_pressure(&row)?;
    let mut whole = serde_json::to_value(&content)?;
    whole["job"] = first.job.id.as_str().into();
    whole["program"] = first.job.program.as_str().into();
    whole["build"] = row.of.build.as_str().into();
    whole["arguments_hash"] = row.of.arguments_hash.as_str().into();
    whole["ranks"] = first.job.ranks.into();
    whole["host"] = row.host.as_str().into();
    whole["made_unix_s"] = row.made_unix_s.into();
    show(options.json.as_deref(), &whole, &program_page(&first, &content))?;
    let is_whole = content.profile.cache.is_some() && content.profile.memory.is_some();
    Ok(if is_whole { DONE } else { PARTIAL })
}

/// A window without pressure, which the store keeps as any other.
fn first_window(engine: &Engine<'_>, found: &Found, options: &PressureOptions) -> anyhow::Result<Report> {
    let window =
        Options { length: Length::AtLeast(options.each), seccomp_ok: options.seccomp_ok, ..usual_options("pressure") };
    let measured = engine.window(found, &Window::new(window))?;
    departed::told(&measured.ends, DONE);
    measured.kept?;
    ensure!(
        measured.report.window.valid && measured.report.window.iterations.is_some(),
        "its window counts no iterations, so nothing tells how it is slowed: nothing was done beside it"
    );
    Ok(measured.report)
}

/// Windows under pressure are of no use to anybody else: they take the loop that is known, and are not kept.
struct Unkept<'a>(&'a Kept);

impl trimtab_engine::Store for Unkept<'_> {
    fn known_loop(&self, key: &str) -> Result<Option<LoopPlace>, BoxError> {
        trimtab_engine::Store::known_loop(self.0, key)
    }

    fn keep(&self, _: &KnownJob, _: &mut Report) -> Result<(), BoxError> {
        Ok(())
    }
}

fn show(json: Option<&Path>, whole: &Value, page: &str) -> anyhow::Result<()> {
    match json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(whole)?),
        None => output::print_text(page),
    }
}

fn host_page(scale: &HostScale) -> String {
    let mut text = format!("{}: a probe beside one on the other processors takes\n", host_name());
    for (name, gauge) in [("cache", &scale.cache), ("memory", &scale.memory)] {
        if let Some(gauge) = gauge {
            let _ = writeln!(text, "  {name:<10} {} as long ({} MiB each)", curve(&gauge.slows), gauge.bytes >> 20);
        }
    }
    for why in &scale.missing {
        let _ = writeln!(text, "  not known: {why}");
    }
    text
}

fn program_page(first: &Report, content: &ProfileKept) -> String {
    let (job, profile) = (&first.job, &content.profile);
    let name = job.program.rsplit('/').next().unwrap_or(&job.program);
    let plural = if job.ranks == 1 { "" } else { "s" };
    let mut text = format!("{} ({name}, {} rank{plural} on {})\n", job.id, job.ranks, job.hosts.join(", "));
    let place = if profile.place == Place::Upon { "on its own processors" } else { "on other processors" };
    let _ = writeln!(text, "beside probes {place} an iteration takes");
    if let Some(sharing) = &profile.sharing {
        let _ = writeln!(text, "  processor  {} as long", curve(sharing));
    }
    for (name, felt) in [("cache", &profile.cache), ("memory", &profile.memory)] {
        match felt {
            Some(felt) => {
                let _ = writeln!(
                    text,
                    "  {name:<10} {} as long as beside one that computes; {}",
                    curve(&felt.slows),
                    makes(felt)
                );
            }
            None => {
                let _ = writeln!(text, "  {name:<10} not known");
            }
        }
    }
    let _ = writeln!(
        text,
        "{} windows in {}; the job was set back by about {}",
        content.windows,
        time(content.took_s),
        time(content.cost_s)
    );
    for line in &content.because {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn makes(felt: &Felt) -> String {
    let Between { value, ends } = felt.makes;
    let ends =
        ends.map_or_else(String::new, |(lower, upper)| format!(" ({:.0} to {:.0}%)", 100.0 * lower, 100.0 * upper));
    format!("it presses itself as a probe at {:.0}%{ends}", 100.0 * value)
}

fn curve(curve: &Curve) -> String {
    let point = |point: &trimtab_engine::corun::Point| {
        let half =
            point.slowdown.ends.map_or_else(String::new, |(lower, upper)| format!(" ± {:.3}", 0.5 * (upper - lower)));
        format!("{:.3}{half} times at {:.0}%", point.slowdown.value, 100.0 * point.level)
    };
    let all: Vec<String> = curve.points.iter().map(point).collect();
    all.join(", ")
}
