//! Any text as a plan of operations and transfers: it is refused, or its alternatives end at times that can be.
//!
//! Hosts and links are always the same; the first byte of an input says whether their figures are alike. Next:
//! `trimtab-grid`'s `outlook`.

use crate::hostile::Target;
use anyhow::Result;
use std::collections::BTreeMap;
use trimtab_grid::{
    Answer, Facts, Figure, Host, Link, Needs, NoNeeds, Plan, Quantity, RoutineFault, Routines, compare,
};

/// A plan with all that steps can have, and a small one.
const PLANS: [&str; 3] = [
    r#"{"version":1,"transfers":"in_turn","data":{"A":"dense:double:64x64@n1"},"alternatives":[{"name":"a","steps":[{"send":"A","to":"n2"}]}]}"#,
    r#"{"version":1,"data":{"A":"dense:double:64x64@n1","C":"dense:double:64x64"},"alternatives":[{"name":"a","steps":[{"run":"dgemm","on":"n2","args":{"n":"A.rows","m":8},"takes":["A"],"gives":["C"]},{"send":"C","to":"n1"}]},{"name":"b","steps":[{"run":"dgemm","on":"n3","takes":["A"],"gives":["C"],"seconds":{"value":2,"lower":1,"upper":3},"memory_bytes":1e9}]}]}"#,
    r#"{"version":1,"data":{"S":"sparse:float:9x9:20@n1","V":"vector:int32:100@n3"},"alternatives":[{"name":"a","steps":[{"send":"S","to":"n3"},{"send":"V","to":"n1"},{"run":"solve","on":"n1","takes":["V"],"args":{"n":"V.length"}}]}]}"#,
];

/// The target.
pub struct Plans;

impl Target for Plans {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let with = |kind: u8| PLANS.iter().map(move |plan| [&[kind], plan.as_bytes()].concat());
        Ok(with(0).chain(with(1)).collect())
    }

    fn length_max(&self) -> usize {
        1024
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((kind, text)) = input.split_first() else { return false };
        let Ok(plan) = serde_json::from_slice::<Plan>(text) else { return false };
        match compare(&plan, &facts(kind % 2 == 0), &Known) {
            Ok(answer) => judge(&answer, plan.alternatives.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        true
    }
}

fn judge(answer: &Answer, alternatives: usize) {
    assert_eq!((answer.alternatives.len(), answer.order.len()), (alternatives, alternatives));
    assert!(answer.chosen.is_none_or(|chosen| answer.alternatives[chosen].end_s.is_some()));
    for one in &answer.alternatives {
        let Some(end_s) = one.end_s else { continue };
        assert!(end_s.value >= 0.0 && end_s.value.is_finite(), "{one:?}");
        let holds = |(lower, upper): (f64, f64)| lower <= end_s.value && end_s.value <= upper;
        assert!(end_s.ends().is_none_or(holds), "{one:?}");
        assert!(one.critical_path.iter().all(|place| *place < one.steps.len()), "{one:?}");
        let is_before = |step: &trimtab_grid::StepOutlook| step.ends_s.value <= end_s.value * (1.0 + 1e-9);
        assert!(one.steps.iter().all(is_before), "{one:?}");
    }
}

/// Three hosts in a row: nobody measured from the first to the last.
fn facts(is_alike: bool) -> Facts {
    let figure = |value: f64| Figure::given(Quantity::between(value, value * 0.9, value * 1.2));
    let host =
        |share: f64| Host { cpu_share: Some(figure(share)), memory_free_bytes: Some(figure(8e9)), ..Host::default() };
    let second = if is_alike { 0.8 } else { 0.1 };
    let hosts = [("n1", 0.8), ("n2", second), ("n3", 0.8)];
    let hosts = hosts.iter().map(|(name, share)| ((*name).to_owned(), host(*share))).collect();
    let mut facts = Facts { hosts, links: Vec::new(), age_max_s: 600.0 };
    for (from, to, bandwidth) in [("n1", "n2", 1e8), ("n2", "n1", 1e8), ("n2", "n3", 1e7), ("n3", "n2", 1e7)] {
        let (from, to) = (from.to_owned(), to.to_owned());
        facts.add_link(Link { from, to, bandwidth_bytes_per_s: figure(bandwidth), latency_s: figure(1e-4) });
    }
    facts
}

/// Knows one routine, and one whose time sizes do not say.
struct Known;

impl Routines for Known {
    fn needs(&self, routine: &str, _: &str, arguments: &BTreeMap<String, f64>) -> Result<Needs, NoNeeds> {
        let size: f64 = arguments.values().sum();
        match routine {
            "dgemm" => Ok(Needs {
                alone_s: Quantity::between(1e-9 * size, 0.9e-9 * size, 1.1e-9 * size),
                memory_bytes: Some(Quantity::of(8.0 * size)),
                because: Vec::new(),
            }),
            "solve" => Err(NoNeeds::NoTime { why: "its values decide".into(), usual_s: Some(3.0) }),
            _ => Err(NoNeeds::Wrong(RoutineFault::NoModel { routine: routine.to_owned() })),
        }
    }
}
