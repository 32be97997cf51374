//! The history in the store's file.
//!
//! Next: `history` for what can be asked, `runs` for a run's row.

use crate::history::{Forecast, ForecastOfRun, History, Likeness, Run, RunEnd};
use crate::pressures::{KeptPressure, PRESSURE_COLUMNS, Pressured, read_pressure, write_pressure};
use crate::routines::{KnownHost, MODEL_COLUMNS, RoutineModel, SizeForecast, read_host, read_model};
use crate::routines::{read_size_forecast, write_host, write_model, write_size_forecast};
use crate::rows::{list_text, read_list};
use crate::runs::{RUN_COLUMN_COUNT, RUN_COLUMNS, read_run, write_run};
use crate::series::{SeriesName, SeriesValue};
use crate::{Error, Store};
use rusqlite::{Params, Row, params};

impl History for Store {
    fn note_run(&mut self, run: &Run) -> Result<(), Error> {
        self.write("writing a run", |transaction| write_run(transaction, run))
    }

    fn run(&self, key: &str) -> Result<Option<Run>, Error> {
        Ok(self.runs_where("runs.key = ?1", [key])?.pop())
    }

    fn runs_alike(&self, likeness: &Likeness, count_max: u32) -> Result<Vec<Run>, Error> {
        let Likeness { build, arguments_hash, ranks, owner } = likeness;
        let alike = "runs.build = ?1 AND runs.arguments_hash = ?2 AND runs.ranks = ?3 AND runs.owner IS ?4 \
                     ORDER BY runs.number DESC LIMIT ?5";
        self.runs_where(alike, params![build, arguments_hash, ranks, owner, count_max])
    }

    fn runs_alike_of_all(&self, likeness: &Likeness, count_max: u32) -> Result<Vec<Run>, Error> {
        let Likeness { build, arguments_hash, ranks, .. } = likeness;
        let alike =
            "runs.build = ?1 AND runs.arguments_hash = ?2 AND runs.ranks = ?3 ORDER BY runs.number DESC LIMIT ?4";
        self.runs_where(alike, params![build, arguments_hash, ranks, count_max])
    }

    fn open_runs(&self) -> Result<Vec<Run>, Error> {
        self.runs_where("runs.ended_before_unix_s IS NULL ORDER BY runs.number DESC", [])
    }

    fn note_seen(&mut self, key: &str, at_unix_s: f64) -> Result<(), Error> {
        let sql = "UPDATE runs SET seen_unix_s = max(coalesce(seen_unix_s, ?2), ?2) WHERE key = ?1";
        self.change_run("noting a run", key, sql, params![key, at_unix_s])
    }

    fn note_end(&mut self, key: &str, end: RunEnd) -> Result<(), Error> {
        let sql = "UPDATE runs SET ended_after_unix_s = ?2, ended_before_unix_s = ?3 WHERE key = ?1";
        self.change_run("noting a run's end", key, sql, params![key, end.after_unix_s, end.before_unix_s])
    }

    fn note_forecast(&mut self, key: &str, forecast: &Forecast) -> Result<u64, Error> {
        let sql = "INSERT INTO forecasts (run, made_unix_s, method, elapsed_s, iterations_done, iterations_remaining, \
                   end_unix_s, lower_unix_s, upper_unix_s, late_unix_s, because) \
                   SELECT number, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM runs WHERE key = ?1";
        let values = params![
            key,
            forecast.made_unix_s,
            forecast.method,
            forecast.elapsed_s,
            forecast.iterations_done.map(u64::cast_signed),
            forecast.iterations_remaining.map(u64::cast_signed),
            forecast.end_unix_s,
            forecast.lower_unix_s,
            forecast.upper_unix_s,
            forecast.late_unix_s,
            list_text(&forecast.because),
        ];
        let written = self.write("writing a forecast", |transaction| {
            let count = transaction.execute(sql, values)?;
            Ok((count > 0).then(|| transaction.last_insert_rowid().cast_unsigned()))
        })?;
        written.ok_or_else(|| Error::NoRun { key: key.to_owned() })
    }

    fn forecasts(&self) -> Result<Vec<ForecastOfRun>, Error> {
        let sql = format!(
            "SELECT {RUN_COLUMNS}, forecasts.number, made_unix_s, method, elapsed_s, forecasts.iterations_done, \
             iterations_remaining, end_unix_s, lower_unix_s, upper_unix_s, late_unix_s, because \
             FROM forecasts JOIN runs ON runs.number = forecasts.run ORDER BY forecasts.number"
        );
        self.rows("reading forecasts", &sql, [], read_forecast)
    }

    fn note_model(&mut self, model: &RoutineModel) -> Result<(), Error> {
        self.write("writing a model", |transaction| write_model(transaction, model))
    }

    fn models(&self) -> Result<Vec<RoutineModel>, Error> {
        let sql = format!("SELECT {MODEL_COLUMNS} FROM models ORDER BY name, made_unix_s DESC");
        self.rows("reading models", &sql, [], read_model)
    }

    fn note_host(&mut self, host: &KnownHost) -> Result<(), Error> {
        self.write("writing a host", |transaction| write_host(transaction, host))
    }

    fn hosts(&self) -> Result<Vec<KnownHost>, Error> {
        let sql = "SELECT name, kind, speed, seen_unix_s FROM hosts ORDER BY name";
        self.rows("reading hosts", sql, [], read_host)
    }

    fn note_size_forecast(&mut self, forecast: &SizeForecast) -> Result<(), Error> {
        self.write("writing a forecast", |transaction| write_size_forecast(transaction, forecast))
    }

    fn size_forecasts(&self) -> Result<Vec<SizeForecast>, Error> {
        let sql = "SELECT model, host, unit, sizes, made_unix_s, value, lower, upper, outside, came FROM size_forecasts \
                   ORDER BY number";
        self.rows("reading forecasts", sql, [], read_size_forecast)
    }

    fn note_pressure(&mut self, pressure: &KeptPressure) -> Result<(), Error> {
        self.write("writing an answer to pressure", |transaction| write_pressure(transaction, pressure))
    }

    fn pressure(&self, host: &str, of: &Pressured) -> Result<Option<KeptPressure>, Error> {
        let sql = format!(
            "SELECT {PRESSURE_COLUMNS} FROM pressures WHERE host = ?1 AND build = ?2 AND arguments_hash = ?3 AND ranks = ?4"
        );
        let values = params![host, of.build, of.arguments_hash, of.ranks];
        Ok(self.rows("reading answers to pressure", &sql, values, read_pressure)?.pop())
    }

    fn note_values(&mut self, values: &[(SeriesName, SeriesValue)]) -> Result<(), Error> {
        self.add_values(values)
    }

    fn values(&self, series: &SeriesName, count_max: u32) -> Result<Vec<SeriesValue>, Error> {
        self.values_of(series, count_max)
    }

    fn series(&self) -> Result<Vec<SeriesName>, Error> {
        self.names_of_series()
    }
}

impl Store {
    fn runs_where(&self, condition: &str, params: impl Params) -> Result<Vec<Run>, Error> {
        let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE {condition}");
        self.rows("reading runs", &sql, params, read_run)
    }

    fn change_run(&mut self, doing: &'static str, key: &str, sql: &str, values: impl Params) -> Result<(), Error> {
        match self.write(doing, |transaction| transaction.execute(sql, values))? {
            0 => Err(Error::NoRun { key: key.to_owned() }),
            _ => Ok(()),
        }
    }
}

fn read_forecast(row: &Row<'_>) -> rusqlite::Result<ForecastOfRun> {
    let at = |column: usize| RUN_COLUMN_COUNT + column;
    let count = |column: usize| row.get::<_, Option<i64>>(at(column)).map(|count| count.map(i64::cast_unsigned));
    let forecast = Forecast {
        made_unix_s: row.get(at(1))?,
        method: row.get(at(2))?,
        elapsed_s: row.get(at(3))?,
        iterations_done: count(4)?,
        iterations_remaining: count(5)?,
        end_unix_s: row.get(at(6))?,
        lower_unix_s: row.get(at(7))?,
        upper_unix_s: row.get(at(8))?,
        late_unix_s: row.get(at(9))?,
        because: read_list(row, at(10))?,
    };
    Ok(ForecastOfRun { number: row.get::<_, i64>(at(0))?.cast_unsigned(), forecast, run: read_run(row)? })
}
