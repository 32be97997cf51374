//! Least squares with coefficients that are not negative: the active set method of Lawson and Hanson (1974) over a QR decomposition.
//!
//! Columns are few, so each step solves its small problem anew. Next: `crossed`, which asks for thousands of them.

/// A coefficient's column is as good as in the span of others below this share of its length.
const SPAN: f64 = 1e-9;
/// Progress below this share of the largest possible gradient is none.
const FLAT: f64 = 1e-12;

/// Coefficients of `columns` that come nearest to `wanted`, none of them negative.
pub(crate) fn non_negative(columns: &[Vec<f64>], wanted: &[f64]) -> Vec<f64> {
    let count = columns.len();
    let lengths: Vec<f64> = columns.iter().map(|column| dot(column, column).sqrt()).collect();
    let is_usable = |place: usize| lengths[place] > 0.0 && lengths[place].is_finite();
    let mut passive = vec![false; count];
    let mut found = vec![0.0; count];
    // Each turn adds a column and may take some away; more turns than these would be a circle of rounding errors.
    for _ in 0..3 * count {
        let rest = residual(columns, &found, wanted);
        let flat = FLAT * dot(wanted, wanted).sqrt();
        let gradient = |place: usize| dot(&columns[place], &rest) / lengths[place];
        let best = (0..count)
            .filter(|place| !passive[*place] && is_usable(*place) && gradient(*place) > flat)
            .max_by(|one, other| gradient(*one).total_cmp(&gradient(*other)));
        let Some(best) = best else { break };
        passive[best] = true;
        let before = found.clone();
        settle(columns, wanted, &mut passive, &mut found);
        if found == before {
            break;
        }
    }
    found
}

/// Moves towards the free solution of the passive columns, and drops those that would become negative on the way.
fn settle(columns: &[Vec<f64>], wanted: &[f64], passive: &mut [bool], found: &mut [f64]) {
    for _ in 0..=columns.len() {
        let free = solve(columns, wanted, passive);
        let blocked = (0..columns.len()).filter(|place| passive[*place] && free[*place] <= 0.0);
        let share = blocked.map(|place| found[place] / (found[place] - free[place])).fold(1.0, f64::min);
        let share = if share.is_finite() { share } else { 0.0 };
        let is_free = (0..columns.len()).all(|place| !passive[place] || free[place] > 0.0);
        for place in 0..columns.len() {
            found[place] += share * (free[place] - found[place]);
            if passive[place] && !is_free && free[place] <= 0.0 && found[place] <= 1e-12 * free[place].abs() {
                (passive[place], found[place]) = (false, 0.0);
            }
        }
        if is_free {
            return;
        }
    }
}

/// Least squares of the passive columns by Gram and Schmidt, modified and done twice.
fn solve(columns: &[Vec<f64>], wanted: &[f64], passive: &[bool]) -> Vec<f64> {
    let chosen: Vec<usize> = (0..columns.len()).filter(|place| passive[*place]).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut upper: Vec<Vec<f64>> = Vec::new();
    for place in &chosen {
        let mut column = columns[*place].clone();
        let length = dot(&column, &column).sqrt();
        let mut along = vec![0.0; basis.len()];
        for _ in 0..2 {
            for (part, base) in along.iter_mut().zip(&basis) {
                let share = dot(base, &column);
                *part += share;
                add(&mut column, base, -share);
            }
        }
        let left = dot(&column, &column).sqrt();
        let is_new = left > SPAN * length;
        let scale = if is_new { 1.0 / left } else { 0.0 };
        column.iter_mut().for_each(|value| *value *= scale);
        along.push(if is_new { left } else { f64::INFINITY });
        basis.push(column);
        upper.push(along);
    }
    let mut solution = vec![0.0; columns.len()];
    let mut rest = wanted.to_vec();
    let mut parts = Vec::new();
    for base in &basis {
        let part = dot(base, &rest);
        add(&mut rest, base, -part);
        parts.push(part);
    }
    for row in (0..chosen.len()).rev() {
        let above: f64 = (row + 1..chosen.len()).map(|later| upper[later][row] * solution[chosen[later]]).sum();
        solution[chosen[row]] = (parts[row] - above) / upper[row][row];
    }
    solution
}

fn residual(columns: &[Vec<f64>], coefficients: &[f64], wanted: &[f64]) -> Vec<f64> {
    let mut rest = wanted.to_vec();
    for (column, coefficient) in columns.iter().zip(coefficients) {
        add(&mut rest, column, -coefficient);
    }
    rest
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn add(to: &mut [f64], what: &[f64], times: f64) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += times * what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(columns: &[Vec<f64>], coefficients: &[f64], wanted: &[f64]) -> f64 {
        let rest = residual(columns, coefficients, wanted);
        dot(&rest, &rest)
    }

    /// The best of all subsets of columns whose free solution is not negative.
    fn by_trying_all(columns: &[Vec<f64>], wanted: &[f64]) -> f64 {
        let subsets = 0_u32..1 << columns.len();
        let solved = subsets.map(|bits| {
            let passive: Vec<bool> = (0..columns.len()).map(|place| bits >> place & 1 == 1).collect();
            solve(columns, wanted, &passive)
        });
        let fit = solved.filter(|found| found.iter().all(|value| *value >= 0.0));
        fit.map(|found| error(columns, &found, wanted)).fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn no_subset_of_columns_is_better(
            columns in prop::collection::vec(prop::collection::vec(-3.0..3.0_f64, 7), 1..5),
            wanted in prop::collection::vec(-5.0..5.0_f64, 7),
        ) {
            let found = non_negative(&columns, &wanted);
            prop_assert!(found.iter().all(|value| *value >= 0.0), "{found:?}");
            let (ours, best) = (error(&columns, &found, &wanted), by_trying_all(&columns, &wanted));
            prop_assert!(ours <= best + 1e-7 * (1.0 + best), "{ours} instead of {best}");
        }
    }

    #[test]
    fn columns_that_are_multiples_of_each_other_do_no_harm() {
        let columns = vec![vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0], vec![0.0; 3]];
        let found = non_negative(&columns, &[2.0, 4.0, 6.0]);
        assert!(error(&columns, &found, &[2.0, 4.0, 6.0]) < 1e-20 && found.iter().all(|value| value.is_finite()));
    }
}
