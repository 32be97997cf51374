//! The history in memory: the twin of the store's file, for tests of what asks it.
//!
//! Next: `history` for what can be asked.

use crate::Error;
use crate::history::{Forecast, ForecastOfRun, History, Likeness, Run, RunEnd, latest};
use crate::pressures::{KeptPressure, Pressured};
use crate::routines::{KnownHost, RoutineModel, SizeForecast};
use crate::series::{SERIES_AGE_MAX_S, SERIES_VALUES_MAX, SeriesName, SeriesValue, check};
use std::collections::BTreeMap;

/// A history that is gone with the program.
#[derive(Clone, Debug, Default)]
pub struct MemoryHistory {
    /// In the order in which they came.
    runs: Vec<Run>,
    /// With the key of the run.
    forecasts: Vec<(String, Forecast)>,
    models: Vec<RoutineModel>,
    hosts: Vec<KnownHost>,
    size_forecasts: Vec<SizeForecast>,
    pressures: Vec<KeptPressure>,
    series: BTreeMap<SeriesName, Vec<SeriesValue>>,
}

impl MemoryHistory {
    fn place(&self, key: &str) -> Result<usize, Error> {
        let place = self.runs.iter().position(|run| run.key == key);
        place.ok_or_else(|| Error::NoRun { key: key.to_owned() })
    }

    fn latest(&self, is_meant: impl Fn(&Run) -> bool) -> impl Iterator<Item = Run> {
        let found: Vec<Run> = self.runs.iter().rev().filter(|run| is_meant(run)).cloned().collect();
        found.into_iter()
    }
}

impl History for MemoryHistory {
    fn note_run(&mut self, run: &Run) -> Result<(), Error> {
        match self.place(&run.key) {
            Ok(place) => self.runs[place] = self.runs[place].clone().then(run.clone()),
            Err(_) => self.runs.push(run.clone()),
        }
        Ok(())
    }

    fn run(&self, key: &str) -> Result<Option<Run>, Error> {
        Ok(self.runs.iter().find(|run| run.key == key).cloned())
    }

    fn runs_alike(&self, likeness: &Likeness, count_max: u32) -> Result<Vec<Run>, Error> {
        Ok(self.latest(|run| run.likeness().as_ref() == Some(likeness)).take(count_max as usize).collect())
    }

    fn runs_alike_of_all(&self, likeness: &Likeness, count_max: u32) -> Result<Vec<Run>, Error> {
        let is_alike =
            |run: &Run| run.likeness().is_some_and(|own| Likeness { owner: likeness.owner, ..own } == *likeness);
        Ok(self.latest(is_alike).take(count_max as usize).collect())
    }

    fn open_runs(&self) -> Result<Vec<Run>, Error> {
        Ok(self.latest(|run| run.ended.is_none()).collect())
    }

    fn note_seen(&mut self, key: &str, at_unix_s: f64) -> Result<(), Error> {
        let place = self.place(key)?;
        let seen = &mut self.runs[place].seen_unix_s;
        *seen = latest(*seen, Some(at_unix_s));
        Ok(())
    }

    fn note_end(&mut self, key: &str, end: RunEnd) -> Result<(), Error> {
        let place = self.place(key)?;
        self.runs[place].ended = Some(end);
        Ok(())
    }

    fn note_forecast(&mut self, key: &str, forecast: &Forecast) -> Result<u64, Error> {
        self.place(key)?;
        self.forecasts.push((key.to_owned(), forecast.clone()));
        Ok(self.forecasts.len() as u64)
    }

    fn forecasts(&self) -> Result<Vec<ForecastOfRun>, Error> {
        let of_run = |(place, (key, forecast)): (usize, &(String, Forecast))| {
            let run = self.runs[self.place(key)?].clone();
            Ok(ForecastOfRun { number: place as u64 + 1, forecast: forecast.clone(), run })
        };
        self.forecasts.iter().enumerate().map(of_run).collect()
    }

    fn note_model(&mut self, model: &RoutineModel) -> Result<(), Error> {
        let is_same = |known: &RoutineModel| known.name == model.name && known.host_kind == model.host_kind;
        self.models.retain(|known| !is_same(known));
        self.models.push(model.clone());
        let newest_first = |one: &RoutineModel, other: &RoutineModel| other.made_unix_s.total_cmp(&one.made_unix_s);
        self.models.sort_by(|one, other| one.name.cmp(&other.name).then(newest_first(one, other)));
        Ok(())
    }

    fn models(&self) -> Result<Vec<RoutineModel>, Error> {
        Ok(self.models.clone())
    }

    fn note_host(&mut self, host: &KnownHost) -> Result<(), Error> {
        self.hosts.retain(|known| known.name != host.name);
        self.hosts.push(host.clone());
        self.hosts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(())
    }

    fn hosts(&self) -> Result<Vec<KnownHost>, Error> {
        Ok(self.hosts.clone())
    }

    fn note_size_forecast(&mut self, forecast: &SizeForecast) -> Result<(), Error> {
        self.size_forecasts.push(forecast.clone());
        Ok(())
    }

    fn size_forecasts(&self) -> Result<Vec<SizeForecast>, Error> {
        Ok(self.size_forecasts.clone())
    }

    fn note_pressure(&mut self, pressure: &KeptPressure) -> Result<(), Error> {
        self.pressures.retain(|known| known.host != pressure.host || known.of != pressure.of);
        self.pressures.push(pressure.clone());
        Ok(())
    }

    fn pressure(&self, host: &str, of: &Pressured) -> Result<Option<KeptPressure>, Error> {
        Ok(self.pressures.iter().find(|known| known.host == host && known.of == *of).cloned())
    }

    fn note_values(&mut self, values: &[(SeriesName, SeriesValue)]) -> Result<(), Error> {
        let mut all = self.series.clone();
        for (series, value) in values {
            let known = all.entry(series.clone()).or_default();
            check(series, known.last().copied(), *value)?;
            known.retain(|one| one.at_unix_s != value.at_unix_s && one.at_unix_s >= value.at_unix_s - SERIES_AGE_MAX_S);
            known.push(*value);
            let too_many = known.len().saturating_sub(SERIES_VALUES_MAX as usize);
            known.drain(..too_many);
        }
        self.series = all;
        Ok(())
    }

    fn values(&self, series: &SeriesName, count_max: u32) -> Result<Vec<SeriesValue>, Error> {
        let values = self.series.get(series).map_or(&[][..], Vec::as_slice);
        Ok(values[values.len().saturating_sub(count_max as usize)..].to_vec())
    }

    fn series(&self) -> Result<Vec<SeriesName>, Error> {
        Ok(self.series.keys().cloned().collect())
    }
}
