//! Any text as a recorded series: it is refused, or each forecaster is judged by numbers that can be.
//!
//! Next: `trimtab-weather`'s `series` and `backtest`.

use crate::hostile::Target;
use anyhow::Result;
use trimtab_weather::{From, Held, Judged, Series, backtest, soon};

/// Series with names of columns, dates, gaps, and numbers of all sizes.
const SERIES: [&str; 3] = [
    "timestamp,value\n2014-02-14 14:30:00,0.132\n2014-02-14 14:35:00,0.134\n2014-02-14 15:35:00,0.134\n2014-02-15 14:40:00,0\n",
    "0,1\n60,2\n120,1\n180,2\n240,1\n300,-2\n360,1e3\n420,2\n480,1\n540,2\n600,1\n660,2\n",
    "1.5,1e99\n2.5,-1e99\n3.5,1e-300\n4.5,7\n",
];

/// The target.
pub struct SeriesOfNumbers;

impl Target for SeriesOfNumbers {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        Ok(SERIES.iter().map(|series| series.as_bytes().to_vec()).collect())
    }

    fn length_max(&self) -> usize {
        1024
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Ok(series) = Series::read(&String::from_utf8_lossy(input)) else { return false };
        assert_eq!(series.times_s.len(), series.values.len());
        assert!(series.times_s.is_sorted() && series.values.iter().all(|value| value.is_finite()));
        let found = backtest(&series, From::Start);
        assert_eq!(found.values, series.values.len());
        found.forecasters.iter().chain([&found.mixture, &found.published]).for_each(judge);
        [found.interval, found.plain_interval].iter().flatten().for_each(held);
        let now_s = series.times_s.last().map_or(0.0, |last| last + 1.0);
        if let Ok(next) = soon(&series.times_s, &series.values, now_s, (0.0, 1.0)) {
            let interval = [Some(next.value), next.lower, next.upper];
            assert!(interval.iter().flatten().all(|value| (0.0..=1.0).contains(value)), "{next:?}");
        }
        true
    }
}

fn judge(judged: &Judged) {
    assert!(judged.error_mean >= 0.0 && judged.error_root_mean_square >= 0.0, "{judged:?}");
}

fn held(held: &Held) {
    assert!((0.0..=1.0).contains(&held.share) && held.score >= 0.0 && held.width >= 0.0, "{held:?}");
}
