//! Routines as the store's models know them, for forecasts on several hosts.
//!
//! Next: `grid_answer`, which asks; `sizes` for one host and one routine.

use crate::error::Error;
use crate::models::{Named, all_models, stray_words, time_words};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use trimtab_grid::{Needs, NoNeeds, Quantity, RoutineFault, Routines};
use trimtab_routine::{Basis, Forecast, HostKind, Scale, Speed};
use trimtab_store::{History, KnownHost, Store};

/// The host on which a question is asked: it can be looked at now.
#[derive(Clone, Debug)]
pub struct Here {
    /// Its name.
    pub name: String,
    /// Looks at its kind.
    pub kind: fn() -> HostKind,
    /// Measures its speed, which takes some tenths of a second.
    pub speed: fn() -> Speed,
}

/// All models of a store, and the hosts that it knows.
#[derive(Debug)]
pub struct GridModels {
    named: Vec<Named>,
    hosts: Vec<KnownHost>,
    here: Option<Here>,
    speed_here: OnceCell<Speed>,
}

impl GridModels {
    /// Those of a store; without `here` only hosts that it knows can be asked about.
    ///
    /// # Errors
    /// Those of the store, and models that can't be read.
    pub fn of(store: &Store, here: Option<Here>) -> Result<GridModels, Error> {
        Ok(GridModels { named: all_models(store)?, hosts: store.hosts()?, here, speed_here: OnceCell::new() })
    }

    /// None, for data alone.
    pub fn none() -> GridModels {
        GridModels { named: Vec::new(), hosts: Vec::new(), here: None, speed_here: OnceCell::new() }
    }

    fn as_here(&self, name: &str) -> Option<&Here> {
        self.here.as_ref().filter(|here| name == here.name || name == "localhost")
    }

    fn known(&self, name: &str) -> Result<&KnownHost, RoutineFault> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| unknown(name))
    }

    fn kind(&self, name: &str) -> Result<HostKind, RoutineFault> {
        match self.as_here(name) {
            Some(here) => Ok((here.kind)()),
            None => serde_json::from_str(&self.known(name)?.kind).map_err(|_| unknown(name)),
        }
    }

    fn speed(&self, name: &str) -> Result<Speed, RoutineFault> {
        match self.as_here(name) {
            Some(here) => Ok(*self.speed_here.get_or_init(here.speed)),
            None => serde_json::from_str(&self.known(name)?.speed).map_err(|_| unknown(name)),
        }
    }

    fn scale(&self, host: &str, named: &Named) -> Result<Scale, RoutineFault> {
        let (least, most) = self.speed(host)?.times_of(&named.content.speed);
        Ok(Scale { least, most })
    }
}

fn unknown(host: &str) -> RoutineFault {
    RoutineFault::NoSpeed { host: host.to_owned() }
}

impl Routines for GridModels {
    fn needs(&self, routine: &str, host: &str, arguments: &BTreeMap<String, f64>) -> Result<Needs, NoNeeds> {
        let kind = self.kind(host).map_err(NoNeeds::Wrong)?;
        let of_name = || self.named.iter().filter(|named| named.kept.name == routine);
        let alike = of_name().find(|named| named.content.host_kind == kind);
        let Some(named) = alike.or_else(|| of_name().next()) else {
            return Err(NoNeeds::Wrong(RoutineFault::NoModel { routine: routine.to_owned() }));
        };
        let content = &named.content;
        let sizes = sizes(routine, &content.parameters, arguments).map_err(NoNeeds::Wrong)?;
        let scale = match alike {
            Some(_) => None,
            None => Some(self.scale(host, named).map_err(NoNeeds::Wrong)?),
        };
        if let Some(stray) = content.time.stray {
            let factor = scale.map_or(1.0, |scale| (scale.least * scale.most).sqrt());
            return Err(NoNeeds::NoTime { why: stray_words(stray), usual_s: Some(factor * content.time.typical) });
        }
        let wrong = |error: trimtab_routine::Error| {
            NoNeeds::Wrong(RoutineFault::Model { routine: routine.to_owned(), why: error.to_string() })
        };
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

fn sizes(routine: &str, parameters: &[String], given: &BTreeMap<String, f64>) -> Result<Vec<f64>, RoutineFault> {
    if let Some(unknown) = given.keys().find(|name| !parameters.contains(name)) {
        let (routine, parameter) = (routine.to_owned(), unknown.clone());
        return Err(RoutineFault::NoParameter { routine, parameter, known: parameters.join(", ") });
    }
    let no_size = |name: &String| RoutineFault::NoSize { routine: routine.to_owned(), parameter: name.clone() };
    let size = |name: &String| given.get(name).copied().ok_or_else(|| no_size(name));
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
