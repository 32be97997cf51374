//! Routines as the store's models know them, for forecasts on several hosts.
//!
//! Next: `grid`, which asks; `forecast_sizes` for one host and one routine.

use crate::engine::Kept;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use trimtab_controller::forecasts::{Named, all_models, stray_words, time_words};
use trimtab_engine::grid::{Needs, NoNeeds, Quantity, Routines};
use trimtab_engine::routine::{Forecast, Scale};
use trimtab_engine::{Basis, HostKind, Speed, host_kind_here, host_name, speed_here};
use trimtab_store::{History, KnownHost};

/// All models of the store, and the hosts that it knows.
pub struct Models {
    named: Vec<Named>,
    hosts: Vec<KnownHost>,
    here: String,
    /// Measuring it takes some tenths of a second.
    speed_here: OnceCell<Speed>,
}

impl Models {
    /// Those of a store.
    pub fn of(kept: &Kept) -> anyhow::Result<Models> {
        let hosts = kept.store().hosts()?;
        Ok(Models { named: all_models(&kept.store())?, hosts, here: host_name(), speed_here: OnceCell::new() })
    }

    /// The kind of a host, and its speed where that was stored.
    fn host(&self, name: &str) -> Result<(HostKind, Option<Speed>), String> {
        if name == self.here || name == "localhost" {
            return Ok((host_kind_here(), None));
        }
        let known = self.hosts.iter().find(|host| host.name == name);
        let found = known.and_then(|host| Some((serde_json::from_str(&host.kind).ok()?, &host.speed)));
        match found {
            Some((kind, speed)) => Ok((kind, serde_json::from_str(speed).ok())),
            None => Err(format!(
                "how fast host {name} computes is not known: run `trimtab model fit` on it, with this store, or give the step `seconds`"
            )),
        }
    }

    fn scale(&self, speed: Option<Speed>, named: &Named) -> Scale {
        let speed = speed.unwrap_or_else(|| *self.speed_here.get_or_init(speed_here));
        let (least, most) = speed.times_of(&named.content.speed);
        Scale { least, most }
    }
}

impl Routines for Models {
    fn needs(&self, routine: &str, host: &str, arguments: &BTreeMap<String, f64>) -> Result<Needs, NoNeeds> {
        let (kind, speed) = self.host(host).map_err(NoNeeds::Wrong)?;
        let of_name = || self.named.iter().filter(|named| named.kept.name == routine);
        let alike = of_name().find(|named| named.content.host_kind == kind);
        let Some(named) = alike.or_else(|| of_name().next()) else {
            return Err(NoNeeds::Wrong(format!(
                "there is no model {routine:?}: `trimtab model fit {routine} --run CMD --over n=...` makes one, or give the step \
                 `seconds`"
            )));
        };
        let content = &named.content;
        let sizes = sizes(routine, &content.parameters, arguments).map_err(NoNeeds::Wrong)?;
        let scale = alike.is_none().then(|| self.scale(speed, named));
        if let Some(stray) = content.time.stray {
            let factor = scale.map_or(1.0, |scale| (scale.least * scale.most).sqrt());
            return Err(NoNeeds::NoTime { why: stray_words(stray), usual_s: Some(factor * content.time.typical) });
        }
        let wrong = |error: trimtab_engine::routine::Error| NoNeeds::Wrong(format!("{routine}: {error}"));
        let Some(time) = content.time.at(&sizes).map_err(wrong)? else {
            return Err(NoNeeds::NoTime { why: format!("the model of {routine} has no terms"), usual_s: None });
        };
        let time = scale.map_or_else(|| time.clone(), |scale| time.scaled(scale));
        let memory = content.memory.as_ref().and_then(|memory| memory.at(&sizes).ok().flatten());
        let because = because(named, host, &time, scale);
        Ok(Needs { alone_s: quantity(&time), memory_bytes: memory.as_ref().map(quantity), because })
    }
}

fn quantity(forecast: &Forecast) -> Quantity {
    Quantity::between(forecast.value, forecast.lower, forecast.upper)
}

fn sizes(routine: &str, parameters: &[String], given: &BTreeMap<String, f64>) -> Result<Vec<f64>, String> {
    if let Some(unknown) = given.keys().find(|name| !parameters.contains(name)) {
        return Err(format!("the model {routine} has no parameter {unknown}; it has {}", parameters.join(", ")));
    }
    let size = |name: &String| given.get(name).copied().ok_or_else(|| format!("{routine}: --args lacks {name}=SIZE"));
    parameters.iter().map(size).collect()
}

fn because(named: &Named, host: &str, time: &Forecast, scale: Option<Scale>) -> Vec<String> {
    let (name, content) = (&named.kept.name, &named.content);
    let mut said = Vec::new();
    if content.time_is == Basis::Cpu {
        said.push(format!("{name} on {host}: this is {}", time_words(content)));
    }
    if content.has_threads {
        said.push(format!("{name} computes with several threads, and the share is that of one processor"));
    }
    if let Some(Scale { least, most }) = scale {
        said.push(format!(
            "{name} was measured on another kind of host; {host} takes {least:.2} to {most:.2} times as long"
        ));
    }
    for (parameter, times) in &time.beyond {
        said.push(format!(
            "{parameter} of {name} is {times:.2} times the largest that was measured: nobody knows what holds there"
        ));
    }
    for (parameter, share) in &time.below {
        said.push(format!("{parameter} of {name} is {share:.2} of the smallest that was measured"));
    }
    said
}
