//! Laws that hold for any jobs.
//!
//! Next: `outlook`, `processors`.

use crate::{Between, Job, RankUse, Remaining, Unknown, forecast};
use proptest::prelude::*;

fn measured(at: usize, (left, alone_s, slowdown): (u64, f64, f64)) -> Job {
    Job {
        name: at.to_string(),
        begins_s: 0.0,
        since_s: 0.0,
        remaining: Remaining::Exactly(left),
        alone_s: Ok(Between::of_mean(alone_s, Some(0.02 * alone_s))),
        together_s: Some(Between::of_mean(alone_s * slowdown, Some(0.02 * alone_s))),
        left_alone_by: None,
        ranks: Err(Unknown::NoRank),
        profile: None,
        met: Vec::new(),
    }
}

fn predicted(at: usize, (left, alone_s, begins_s): (u64, f64, f64), ranks: Vec<(f64, u8)>) -> Job {
    let rank = |(wanted, places): (f64, u8)| RankUse {
        host: "n1".to_owned(),
        processors: (0..4).filter(|processor| places >> processor & 1 == 1).collect(),
        wanted,
        computing: Some(0.6 * wanted),
    };
    Job {
        begins_s,
        together_s: None,
        left_alone_by: None,
        ranks: Ok(ranks.into_iter().map(rank).collect()),
        ..measured(at, (left, alone_s, 1.0))
    }
}

fn ends(jobs: &[Job]) -> Vec<f64> {
    let found = forecast(jobs).expect("jobs that can be");
    found.jobs.iter().map(|job| job.end_s.clone().expect("an end").value).collect()
}

fn work() -> impl Strategy<Value = (u64, f64, f64)> {
    (1..1000_u64, 0.01..10.0_f64, 1.0..3.0_f64)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

fn places() -> impl Strategy<Value = Vec<(f64, u8)>> {
    prop::collection::vec((0.0..2.0_f64, 1..16_u8), 1..4)
}

proptest! {
    #[test]
    fn a_job_alone_takes_its_own_time(one in work(), ranks in places()) {
        let own = one.0 as f64 * one.1;
        let mut jobs = [measured(0, one)];
        jobs[0].together_s = None;
        prop_assert!(near(ends(&jobs)[0], own));
        let alone = predicted(0, (one.0, one.1, 3.0), ranks);
        prop_assert!(near(ends(&[alone])[0], own + 3.0));
    }

    #[test]
    fn all_end_between_alone_and_formula_7(all in prop::collection::vec(work(), 2..5)) {
        let jobs: Vec<Job> = all.iter().enumerate().map(|(at, one)| measured(at, *one)).collect();
        let found = forecast(&jobs).unwrap();
        for (job, (left, alone_s, slowdown)) in found.jobs.iter().zip(&all) {
            let end = job.end_s.clone().unwrap();
            let alone = *left as f64 * alone_s;
            prop_assert!(end.value >= alone * (1.0 - 1e-9) && end.value <= alone * slowdown * (1.0 + 1e-9));
            prop_assert!(near(job.stay_end_s.clone().unwrap(), alone * slowdown));
            prop_assert!(end.ends.is_some_and(|(lower, upper)| lower <= end.value && end.value <= upper));
        }
        prop_assert!(found.jobs.iter().any(|job| job.place == Some(1)));
    }

    #[test]
    fn a_slower_partner_never_ends_another_earlier(a in work(), b in work(), more in 1.0..3.0_f64) {
        let usual = ends(&[measured(0, a), measured(1, b)]);
        let longer = ends(&[measured(0, a), measured(1, ((b.0 as f64 * more) as u64 + 1, b.1, b.2))]);
        let slowed = ends(&[measured(0, a), measured(1, (b.0, b.1, b.2 * more))]);
        prop_assert!(longer[0] >= usual[0] * (1.0 - 1e-9) && slowed[0] >= usual[0] * (1.0 - 1e-9));
    }

    #[test]
    fn order_does_not_matter(a in work(), b in work(), c in work(), places in [places(), places(), places()]) {
        let measured: Vec<Job> = [a, b, c].iter().enumerate().map(|(at, one)| measured(at, *one)).collect();
        let [p, q, r] = places;
        let predicted = [predicted(0, a, p), predicted(1, b, q), predicted(2, c, r)].to_vec();
        for jobs in [measured, predicted] {
            let (forth, mut back) = (ends(&jobs), ends(&jobs.into_iter().rev().collect::<Vec<_>>()));
            back.reverse();
            prop_assert!(forth.iter().zip(&back).all(|(a, b)| near(*a, *b)), "{forth:?} {back:?}");
        }
    }

    #[test]
    fn another_job_never_speeds_one_up(a in work(), b in work(), places in [places(), places()]) {
        let [p, q] = places;
        let found = forecast(&[predicted(0, a, p), predicted(1, b, q)]).unwrap();
        for job in &found.jobs {
            let slowdown = job.slowdown.clone().unwrap();
            prop_assert!(slowdown.value >= 1.0 - 1e-6, "{slowdown:?}");
            prop_assert!(slowdown.ends.is_some_and(|(lower, upper)| lower >= 1.0 - 1e-6 && lower <= upper));
        }
    }
}
