//! The questions that people have for a controller, each with its answer's type.
//!
//! Next: `client`, which asks; `api` and `jobs` for the answers.

use crate::api::Tree;
use crate::client::Client;
use crate::error::SiteError;
use crate::identity::Identity;
use crate::jobs::{ArgumentsKept, JobWindows, Jobs, Trigger, Triggered};
use crate::measured::{Acceptances, Measurement, WindowAsked};
use crate::weather::{HostWeather, PairFound};
use serde_json::Value;
use std::path::Path;
use trimtab_types::report::Report;

impl Client {
    /// For a command of a person with the identity in a file.
    ///
    /// # Errors
    /// An identity that can't be used.
    pub fn of_command(controller: &str, identity: &Path) -> Result<Self, SiteError> {
        Client::new(controller, &Identity::of_command(identity)?)
    }

    /// Which agents there are, and who calls whom.
    ///
    /// # Errors
    /// As [`Client::get`]; so for all questions.
    pub fn tree(&self) -> Result<Tree, SiteError> {
        self.get("/v1/tree")
    }

    /// The jobs whose windows are kept.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn jobs(&self) -> Result<Jobs, SiteError> {
        self.get("/v1/jobs")
    }

    /// A job with its windows.
    ///
    /// # Errors
    /// As [`Client::get`], and [`SiteError::NoName`].
    pub fn job(&self, job: &str) -> Result<JobWindows, SiteError> {
        self.get(&format!("/v1/jobs/{}", in_path(job)?))
    }

    /// The report of one window.
    ///
    /// # Errors
    /// As [`Client::get`], and [`SiteError::NoName`].
    pub fn report(&self, job: &str, window: u32) -> Result<Report, SiteError> {
        self.get(&format!("/v1/jobs/{}/windows/{window}", in_path(job)?))
    }

    /// Calls whoever waits for a job; how many have heard it. `name` is kept with their windows.
    ///
    /// # Errors
    /// As [`Client::post`], and [`SiteError::NoName`].
    pub fn trigger(&self, job: &str, name: &str) -> Result<u32, SiteError> {
        let trigger = Trigger { name: name.to_owned() };
        let Triggered { reached } = self.post(&format!("/v1/jobs/{}/trigger", in_path(job)?), &trigger)?;
        Ok(reached)
    }
}

impl Client {
    /// Has a window of a job measured, in its owner's name; without waiting, whatever the question says.
    ///
    /// # Errors
    /// As [`Client::post`], and [`SiteError::NoName`].
    pub fn measure(&self, job: &str, asked: &WindowAsked) -> Result<Measurement, SiteError> {
        let asked = WindowAsked { blocking: false, ..asked.clone() };
        self.post(&format!("/v1/jobs/{}/windows", in_path(job)?), &asked)
    }

    /// How such a window stands; the answer comes with its end, or after some seconds.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn measurement(&self, id: u64) -> Result<Measurement, SiteError> {
        self.get(&format!("/v1/measurements/{id}"))
    }

    /// Lets a scheduler have one's jobs measured.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn accept(&self, scheduler: u32) -> Result<(), SiteError> {
        self.post(&format!("/v1/schedulers/{scheduler}"), &())
    }

    /// Lets it do so no more.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub fn withdraw(&self, scheduler: u32) -> Result<(), SiteError> {
        self.delete(&format!("/v1/schedulers/{scheduler}"))
    }

    /// How the site keeps one's arguments.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn arguments_kept(&self) -> Result<ArgumentsKept, SiteError> {
        self.get("/v1/arguments")
    }

    /// Has the site keep one's arguments as they are, or as hashes.
    ///
    /// # Errors
    /// As [`Client::file`]: all that is kept is gone through.
    pub fn keep_arguments(&self, kept: bool) -> Result<(), SiteError> {
        self.file("/v1/arguments", &ArgumentsKept { kept })
    }

    /// The schedulers that are accepted.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn acceptances(&self) -> Result<Acceptances, SiteError> {
        self.get("/v1/schedulers")
    }
}

impl Client {
    /// A forecast: what is the last word of its path, as "job" or "corun".
    ///
    /// # Errors
    /// As [`Client::post`], and [`SiteError::NoName`].
    pub fn forecast(&self, what: &str, question: &Value) -> Result<Value, SiteError> {
        self.post(&format!("/v1/forecasts/{}", in_path(what)?), question)
    }

    /// The weather of a host: all that a new process would get there.
    ///
    /// # Errors
    /// As [`Client::get`], and [`SiteError::NoName`].
    pub fn weather(&self, host: &str, nice: i32) -> Result<HostWeather, SiteError> {
        self.get(&format!("/v1/weather/{}/{nice}", in_path(host)?))
    }

    /// The network from a host to another one, probed now.
    ///
    /// # Errors
    /// As [`Client::post`], and [`SiteError::NoName`].
    pub fn pair(&self, host: &str, peer: &str) -> Result<PairFound, SiteError> {
        self.post(&format!("/v1/weather/{}/to/{}", in_path(host)?, in_path(peer)?), &())
    }
}

/// The name of a job or a host, which stands in a path as it is.
fn in_path(name: &str) -> Result<&str, SiteError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:+".contains(&byte);
    match !name.is_empty() && name.bytes().all(fits) {
        true => Ok(name),
        false => Err(SiteError::NoName { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_stand_in_a_path() {
        for (name, fits) in
            [("app-3", true), ("4711_2.0", true), ("n1:4711", true), ("", false), ("../tree", false), ("a b", false)]
        {
            assert_eq!(in_path(name).is_ok(), fits, "{name}");
        }
    }
}
