//! How long a routine takes at given sizes, and how much memory, on a host.
//!
//! Next: `models` for models as they are kept, `trimtab-routine` for the forecast.

use crate::error::Error;
use crate::models::{Content, Named, stray_words, time_words};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trimtab_routine::{Basis, Forecast, HostKind, Model, Scale, Speed};
use trimtab_store::{History, KnownHost, SizeForecast, Store};

/// Version of the answer's shape: fields may be added to it, and nothing else changes.
const VERSION: u32 = 1;

/// Time or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Time.
    Time,
    /// Memory.
    Memory,
}

impl Asked {
    /// The unit of values.
    pub fn unit(self) -> &'static str {
        if self == Asked::Time { "seconds" } else { "bytes" }
    }
}

/// The host that is asked about.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: HostKind,
    /// How fast it is; `None`: not measured.
    pub speed: Option<Speed>,
}

/// A forecast, and what it was made of.
#[derive(Clone, Debug)]
pub struct SizeMade {
    /// Time or memory.
    pub asked: Asked,
    /// The host.
    pub host: Host,
    /// The size of each parameter.
    pub sizes: Vec<f64>,
    /// The model that was taken.
    pub named: Named,
    /// The forecast; `None`: see `no_claim`.
    pub forecast: Option<Forecast>,
    /// Factors by which a model of another kind of host was scaled.
    pub scale: Option<Scale>,
    /// How it was derived, in sentences.
    pub because: Vec<String>,
    /// Why nothing is said.
    pub no_claim: Option<String>,
    /// The value that came, where it was run.
    pub came: Option<f64>,
}

/// A host that the store knows; `others` are known besides.
///
/// # Errors
/// [`Error::Unknown`], and those of reading.
pub fn known_host(store: &Store, name: &str, others: &[&str]) -> Result<Host, Error> {
    let hosts = store.hosts()?;
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).chain(others.iter().copied()).collect();
    let Some(KnownHost { kind, speed, .. }) = hosts.iter().find(|host| host.name == name) else {
        let known = if names.is_empty() { "no hosts".to_owned() } else { names.join(", ") };
        return Err(Error::Unknown(format!(
            "nothing is known of host {name:?}: run `trimtab model fit` on it, with this store; known are {known}"
        )));
    };
    let damaged =
        |_| Error::Unknown(format!("what the store knows of host {name:?} can't be read: fit a model there again"));
    let kind = serde_json::from_str(kind).map_err(damaged)?;
    Ok(Host { name: name.to_owned(), kind, speed: serde_json::from_str(speed).ok() })
}

impl SizeMade {
    /// The forecast by the models of one name, the newest first.
    ///
    /// # Errors
    /// [`Error::Question`]: parameters that the model has not, or no sizes; [`Error::Unknown`]: the host's speed.
    pub fn of(asked: Asked, args: &[(String, f64)], models: Vec<Named>, host: Host) -> Result<SizeMade, Error> {
        let fastest = fastest(&models);
        let place = models.iter().position(|named| named.content.host_kind == host.kind).unwrap_or(0);
        let named = models.into_iter().nth(place).ok_or_else(|| Error::Unknown("there is no model".to_owned()))?;
        let sizes = sizes(&named.content.parameters, args)?;
        let mut made = SizeMade {
            asked,
            host,
            sizes,
            named,
            forecast: None,
            scale: None,
            because: Vec::new(),
            no_claim: None,
            came: None,
        };
        let content = &made.named.content;
        let Some(model) = (if asked == Asked::Time { Some(&content.time) } else { content.memory.as_ref() }) else {
            made.no_claim = content.no_memory.clone();
            return Ok(made);
        };
        if let Some(stray) = model.stray {
            made.no_claim = Some(format!("{}; {fastest}", stray_words(stray)));
            return Ok(made);
        }
        made.forecast = model.at(&made.sizes)?;
        if asked == Asked::Time && content.host_kind != made.host.kind {
            let scale = scale(content, &made.host)?;
            made.forecast = made.forecast.map(|forecast| forecast.scaled(scale));
            made.scale = Some(scale);
        }
        made.because = because(&made, model);
        Ok(made)
    }

    /// The same as it is kept among all forecasts; `None`: nothing was said.
    pub fn forecast(&self, made_unix_s: f64) -> Option<SizeForecast> {
        let forecast = self.forecast.as_ref()?;
        let named = self.named.content.parameters.iter().zip(&self.sizes);
        Some(SizeForecast {
            model: self.named.kept.name.clone(),
            host: self.host.name.clone(),
            unit: self.asked.unit().to_owned(),
            sizes: named.map(|(name, size)| format!("{name}={size}")).collect(),
            made_unix_s,
            value: forecast.value,
            lower: forecast.lower,
            upper: forecast.upper,
            outside: !forecast.is_inside(),
            came: self.came,
        })
    }

    /// The answer.
    pub fn answer(&self) -> SizeAnswer {
        let content = &self.named.content;
        let forecast = self.forecast.as_ref();
        let sides = |all: fn(&Forecast) -> &Vec<(String, f64)>| {
            forecast.map(|forecast| all(forecast).iter().cloned().collect::<BTreeMap<String, f64>>())
        };
        SizeAnswer {
            version: VERSION,
            model: self.named.kept.name.clone(),
            host: self.host.name.clone(),
            host_kind: self.host.kind.clone(),
            sizes: content.parameters.iter().cloned().zip(self.sizes.iter().copied()).collect(),
            unit: self.asked.unit().to_owned(),
            time_is: (self.asked == Asked::Time).then_some(content.time_is),
            value: forecast.map(|forecast| forecast.value),
            lower: forecast.map(|forecast| forecast.lower),
            upper: forecast.map(|forecast| forecast.upper),
            share_inside: forecast.map(|forecast| forecast.share_inside),
            outside: forecast.map(|forecast| !forecast.is_inside()),
            beyond: sides(|forecast| &forecast.beyond),
            below: sides(|forecast| &forecast.below),
            at_break: forecast.map(|forecast| forecast.at_break),
            scale: self.scale,
            because: self.because.clone(),
            no_claim: self.no_claim.clone(),
            came: self.came,
        }
    }
}

/// How long a routine takes, or how much memory it needs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SizeAnswer {
    /// 1: fields may be added, and nothing else changes.
    pub version: u32,
    /// The model's name.
    pub model: String,
    /// The host.
    pub host: String,
    /// Its kind: `processor`, `processors`, `clock_mhz`, `memory_gib`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub host_kind: HostKind,
    /// The size of each parameter.
    pub sizes: BTreeMap<String, f64>,
    /// "seconds" or "bytes".
    pub unit: String,
    /// "wall" or "cpu": the time that is meant; null: memory.
    #[schemars(with = "Option<String>")]
    pub time_is: Option<Basis>,
    /// The expected value; null: see `no_claim`.
    pub value: Option<f64>,
    /// The lower end of the interval; null with `value`.
    pub lower: Option<f64>,
    /// The upper end of the interval; null with `value`.
    pub upper: Option<f64>,
    /// The share of values in the interval; null with `value`.
    pub share_inside: Option<f64>,
    /// True if a size is outside of what was measured; null with `value`.
    pub outside: Option<bool>,
    /// By parameter, the size over the largest that was measured; null with `value`.
    pub beyond: Option<BTreeMap<String, f64>>,
    /// By parameter, the size over the smallest that was measured; null with `value`.
    pub below: Option<BTreeMap<String, f64>>,
    /// True where a break lies that was not measured exactly; null with `value`.
    pub at_break: Option<bool>,
    /// `least` and `most`: factors by which a model of another kind of host was scaled; null: none.
    #[schemars(with = "Option<BTreeMap<String, f64>>")]
    pub scale: Option<Scale>,
    /// How it was derived, in sentences.
    pub because: Vec<String>,
    /// Why nothing is said; null: something is.
    pub no_claim: Option<String>,
    /// The value that came, where it was run; else null.
    pub came: Option<f64>,
}

/// The host on which the measured runs took least, in a sentence.
fn fastest(models: &[Named]) -> String {
    let best = models.iter().min_by(|one, other| one.content.time.typical.total_cmp(&other.content.time.typical));
    best.map_or_else(String::new, |best| {
        format!(
            "of {} kinds of hosts that it was measured on the fastest is that of {}",
            models.len(),
            best.content.host
        )
    })
}

fn sizes(parameters: &[String], given: &[(String, f64)]) -> Result<Vec<f64>, Error> {
    if let Some((unknown, _)) = given.iter().find(|(name, _)| !parameters.contains(name)) {
        let why = format!("the model has no parameter {unknown}; it has {}", parameters.join(", "));
        return Err(Error::Question(why));
    }
    let size = |parameter: &String| {
        let mut all = given.iter().filter(|(name, _)| name == parameter);
        let lacks = || {
            Error::Question(format!(
                "the arguments lack {parameter}: give its size (--args {parameter}=SIZE, \"args\")"
            ))
        };
        let size = all.next().ok_or_else(lacks)?.1;
        match all.next() {
            None => Ok(size),
            Some(_) => Err(Error::Question(format!("{parameter} is given twice"))),
        }
    };
    parameters.iter().map(size).collect()
}

fn scale(content: &Content, host: &Host) -> Result<Scale, Error> {
    let unknown = || Error::Unknown(format!("the speed of host {:?} is not known: fit a model there again", host.name));
    let (least, most) = host.speed.ok_or_else(unknown)?.times_of(&content.speed);
    Ok(Scale { least, most })
}

fn because(made: &SizeMade, model: &Model) -> Vec<String> {
    let content = &made.named.content;
    let mut said = Vec::new();
    if made.asked == Asked::Time && content.time_is == Basis::Cpu {
        said.push(format!("this is {}", time_words(content)));
    }
    if let Some(Scale { least, most }) = made.scale {
        said.push(format!(
            "it was measured on another kind of host ({}), {} takes {least:.2} to {most:.2} times as long by its measured speed of \
             computing and of memory",
            content.host_kind.words(),
            made.host.name
        ));
    }
    let Some(forecast) = &made.forecast else { return said };
    for (name, times) in &forecast.beyond {
        said.push(format!("{name} is {times:.2} times the largest that was measured: nobody knows what holds there"));
    }
    for (name, share) in &forecast.below {
        said.push(format!("{name} is {share:.2} of the smallest that was measured"));
    }
    if forecast.at_break {
        said.push("a break lies about here, and where exactly was not measured".to_owned());
    }
    if made.asked == Asked::Memory && forecast.value > made.host.kind.memory_gib as f64 * (1_u64 << 30) as f64 {
        said.push(format!("impossible: the host has {} GiB", made.host.kind.memory_gib));
    }
    let error = model.pieces.iter().filter_map(|piece| piece.error_median).fold(0.0, f64::max);
    said.push(format!("sizes that were left out were met to {:.1}% in the median", 100.0 * error));
    said
}
