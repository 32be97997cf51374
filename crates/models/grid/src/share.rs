//! How transfers at the same time share what they go through: max-min fair, as flows of TCP do in the long run.
//!
//! All rates rise together until something is full; whoever goes through it keeps that rate, and the others rise on (D. Bertsekas,
//! R. Gallager, "Data Networks", 1992, section 6.5.2).
//!
//! Next: `run`, which lets time pass.

/// The rate of each flow, by the things that it goes through, and what these let through; in bytes per second.
pub(crate) fn rates(flows: &[&[usize]], capacities: &[f64]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    loop {
        let mut count = vec![0_u32; capacities.len()];
        for (flow, _) in flows.iter().zip(&rates).filter(|(_, rate)| rate.is_none()) {
            flow.iter().for_each(|thing| count[*thing] += 1);
        }
        let part = |thing: usize| left[thing].max(0.0) / f64::from(count[thing]);
        let used = (0..capacities.len()).filter(|thing| count[*thing] > 0);
        let Some(fullest) = used.min_by(|one, other| part(*one).total_cmp(&part(*other))) else { break };
        let rate = part(fullest);
        for (flow, known) in flows.iter().zip(&mut rates) {
            if known.is_none() && flow.contains(&fullest) {
                *known = Some(rate);
                flow.iter().for_each(|thing| left[*thing] -= rate);
            }
        }
    }
    rates.into_iter().map(|rate| rate.unwrap_or(f64::INFINITY)).collect()
}
