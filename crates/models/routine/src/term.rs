//! Terms of a model: products of powers and logarithms of the sizes.
//!
//! Next: `search`, which chooses among them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Powers and exponents of the logarithm of one parameter, from the simplest on.
const ALONE: &[(f64, u32)] = &[
    (1.0, 0),
    (2.0, 0),
    (3.0, 0),
    (1.0, 1),
    (0.0, 1),
    (0.5, 0),
    (1.5, 0),
    (2.0, 1),
    (4.0, 0),
    (2.5, 0),
    (0.0, 2),
    (1.0, 2),
    (0.5, 1),
    (3.0, 1),
    (2.0, 2),
];
/// Powers that make a sum with the constant only. Where caches hold less and less of the data, times grow by somewhat more than the work
/// over several doublings; a line and a square say the same inside the range, and are far off beyond it.
const SOMEWHAT_MORE: &[(f64, u32)] = &[(1.1, 0), (1.2, 0), (1.3, 0), (1.4, 0)];
/// The same in products with other parameters.
const IN_PRODUCTS: &[(f64, u32)] = &[(1.0, 0), (2.0, 0), (3.0, 0), (1.0, 1), (0.0, 1), (0.5, 0), (1.5, 0)];
/// The same of a parameter that makes values smaller, such as a number of threads.
const FALLING: &[(f64, u32)] = &[(-1.0, 0), (-0.5, 0), (-2.0, 0)];
/// A lower whole power beside a leading term costs this share of another term.
const LOWER_COST: f64 = 0.5;
/// The highest sum of powers in a product.
const DEGREE_MAX: f64 = 4.0;

/// One parameter in a term: `size^power * log2(size)^logs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Place of the parameter.
    pub parameter: usize,
    /// The power of the size.
    pub power: f64,
    /// The power of its logarithm.
    pub logs: u32,
}

/// A product of factors of different parameters; without any, a constant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The factors, by parameter.
    pub factors: Vec<Factor>,
}

impl Factor {
    fn value(&self, size: f64) -> f64 {
        // Sizes below one have no part that grows.
        size.powf(self.power) * size.max(1.0).log2().powi(self.logs as i32)
    }

    fn cost(&self) -> f64 {
        let fraction = match self.power {
            power if power.fract() == 0.0 => 0.0,
            // Hardly told from a logarithm, and as likely.
            power if power > 1.0 && power < 1.5 => 0.4,
            _ => 0.8,
        };
        // Logarithms beside high powers are rare, and hardly told from a lower power beside.
        let log = if self.power < 2.0 { 0.4 } else { 1.0 };
        1.0 + fraction + log * f64::from(self.logs) + if self.power > 3.0 { 0.5 } else { 0.0 }
    }

    fn words(&self, name: &str) -> String {
        let power = match self.power {
            0.0 => None,
            1.0 => Some(name.to_owned()),
            power => Some(format!("{name}^{power}")),
        };
        let logs = match self.logs {
            0 => None,
            1 => Some(format!("log2({name})")),
            logs => Some(format!("log2({name})^{logs}")),
        };
        power.into_iter().chain(logs).collect::<Vec<_>>().join(" * ")
    }
}

impl Term {
    /// The term's value at these sizes, without coefficient.
    pub fn value(&self, at: &[f64]) -> f64 {
        self.factors.iter().map(|factor| factor.value(at[factor.parameter])).product()
    }

    /// True for the constant.
    pub fn is_constant(&self) -> bool {
        self.factors.is_empty()
    }

    /// How complicated it is: 0 for the constant.
    pub(crate) fn cost(&self) -> f64 {
        let most = self.factors.iter().map(Factor::cost).fold(0.0, f64::max);
        most + 0.25 * self.factors.len().saturating_sub(1) as f64
    }

    /// True for products of whole powers.
    fn is_whole(&self) -> bool {
        self.factors.iter().all(|factor| factor.logs == 0 && factor.power.fract() == 0.0)
    }

    fn stands_alone(&self) -> bool {
        self.factors.iter().any(|factor| SOMEWHAT_MORE.contains(&(factor.power, factor.logs)))
    }

    fn degree(&self) -> f64 {
        self.factors.iter().map(|factor| factor.power).sum()
    }

    /// The term with names of parameters; "1" for the constant.
    pub fn words(&self, parameters: &[String]) -> Words<'_> {
        Words { term: self, parameters: parameters.to_vec() }
    }
}

/// A term in words.
#[derive(Debug)]
pub struct Words<'a> {
    term: &'a Term,
    parameters: Vec<String>,
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.term.is_constant() {
            return formatter.write_str("1");
        }
        let name = |factor: &Factor| self.parameters.get(factor.parameter).cloned().unwrap_or_default();
        let words: Vec<String> = self.term.factors.iter().map(|factor| factor.words(&name(factor))).collect();
        formatter.write_str(&words.join(" * "))
    }
}

/// True if all terms but the leading one and the constant are lower whole powers.
pub(crate) fn has_usual_tail(terms: &[Term]) -> bool {
    let degrees = terms.iter().map(Term::degree);
    let leading = degrees.fold(0.0, f64::max);
    terms.iter().filter(|term| !(term.is_whole() && term.degree() < leading)).count() <= 1
}

/// True if no term that makes a sum with the constant only stands beside others.
pub(crate) fn may_be_summed(terms: &[Term]) -> bool {
    let mut growing = terms.iter().filter(|term| !term.is_constant());
    growing.clone().count() == 1 || !growing.any(Term::stands_alone)
}

/// How complicated a sum is. Lower whole powers beside a leading one are what algorithms have: a square beside the cube.
pub(crate) fn cost_of(terms: &[Term]) -> f64 {
    let leading = terms.iter().max_by(|one, other| one.degree().total_cmp(&other.degree()));
    let Some(leading) = leading else { return 0.0 };
    let cost = |term: &Term| match term.is_whole() && term.degree() < leading.degree() {
        true => LOWER_COST * term.cost().min(1.0),
        false => term.cost(),
    };
    terms.iter().map(cost).sum()
}

/// All terms but the constant that a model may have; of each parameter, whether values fall as it grows.
pub(crate) fn candidates(falling: &[bool]) -> Vec<Term> {
    let shapes = |falls: bool| match (falls, falling.len()) {
        (true, _) => FALLING.to_vec(),
        (false, 1) => [ALONE, SOMEWHAT_MORE].concat(),
        (false, _) => IN_PRODUCTS.to_vec(),
    };
    let mut terms = vec![Term::default()];
    for (parameter, falls) in falling.iter().enumerate() {
        let factors = shapes(*falls).into_iter().map(|(power, logs)| Factor { parameter, power, logs });
        let factors: Vec<Factor> = factors.collect();
        let with = |term: &Term| {
            let more = factors.iter().map(|factor| {
                let factors = term.factors.iter().chain([factor]).cloned().collect();
                Term { factors }
            });
            more.collect::<Vec<_>>()
        };
        terms = terms.iter().flat_map(|term| [vec![term.clone()], with(term)].concat()).collect();
    }
    terms.retain(|term| !term.is_constant() && is_usual(term));
    terms
}

/// False for products of so high a degree, or of so many logarithms, that no routine has them.
fn is_usual(term: &Term) -> bool {
    let degree: f64 = term.factors.iter().map(|factor| factor.power.max(0.0)).sum();
    let logs: u32 = term.factors.iter().map(|factor| factor.logs).sum();
    degree <= DEGREE_MAX && (term.factors.len() == 1 || logs <= 1)
}
