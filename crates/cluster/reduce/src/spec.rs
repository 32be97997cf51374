//! How a stream names its filter, and how a node finds it.
//!
//! A stream is opened everywhere by one message, so the filter travels as a description with its parameters, and each
//! node builds it. A user's own filter is registered under a name in every agent.
//!
//! Next: `trimtab-overlay`, which opens streams.

use crate::down::{Context, Down, DownFilter, Scatter};
use crate::lists::{Classes, Concat, TOP_COUNT_MAX, TopK};
use crate::numbers::{Histogram, Max, Mean, Min, Ordered, Sum, SumReal};
use crate::{AnyFilter, Bad};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A filter with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterSpec {
    /// [`Sum`] of integers.
    Sum,
    /// [`SumReal`]: exact sum of doubles.
    SumReal,
    /// [`Min`] with its rank.
    Min,
    /// [`Max`] with its rank.
    Max,
    /// [`Mean`] as sum and count.
    Mean,
    /// [`Histogram`] with bins between these edges.
    Histogram(Vec<Ordered>),
    /// [`TopK`]: so many of the largest.
    TopK(u32),
    /// [`Classes`]: at most so many different values.
    Classes(u32),
    /// [`Concat`]: at most so many bytes.
    Concat(u32),
    /// A user's own, by name, with parameters only it understands.
    Own {
        /// As it was registered.
        name: String,
        /// For its builder.
        parameters: Vec<u8>,
    },
}

/// Makes a user's filter from its parameters.
type Builder = Box<dyn Fn(&[u8]) -> Result<Arc<dyn AnyFilter>, Bad> + Send + Sync>;

/// Makes a user's downstream filter from its parameters.
type DownBuilder = Box<dyn Fn(&[u8]) -> Result<Arc<dyn DownFilter>, Bad> + Send + Sync>;

/// The users' own filters of one program, upwards and downwards.
#[derive(Default)]
pub struct Registry {
    builders: BTreeMap<String, Builder>,
    down_builders: BTreeMap<String, DownBuilder>,
}

impl Registry {
    /// Adds a filter, or replaces one of the same name.
    pub fn register(
        &mut self,
        name: &str,
        builder: impl Fn(&[u8]) -> Result<Arc<dyn AnyFilter>, Bad> + Send + Sync + 'static,
    ) {
        self.builders.insert(name.to_owned(), Box::new(builder));
    }

    /// Adds a downstream filter, or replaces one of the same name.
    pub fn register_down(
        &mut self,
        name: &str,
        builder: impl Fn(&[u8]) -> Result<Arc<dyn DownFilter>, Bad> + Send + Sync + 'static,
    ) {
        self.down_builders.insert(name.to_owned(), Box::new(builder));
    }

    /// The downstream filter that a stream names; none if everybody gets everything.
    ///
    /// # Errors
    /// When it is not registered here, or its parameters are wrong.
    pub fn build_down(&self, down: &Down) -> Result<Option<Arc<dyn DownFilter>>, Bad> {
        Ok(match down {
            Down::Same => None,
            Down::Scatter => Some(Arc::new(Scatter)),
            Down::Context => Some(Arc::new(Context)),
            Down::Own { name, parameters } => {
                let builder = self.down_builders.get(name).ok_or_else(|| Bad::Unknown { name: name.clone() })?;
                Some(builder(parameters)?)
            }
        })
    }

    /// The filter that a stream names.
    pub fn build(&self, spec: &FilterSpec) -> Result<Arc<dyn AnyFilter>, Bad> {
        Ok(match spec {
            FilterSpec::Sum => Arc::new(Sum),
            FilterSpec::SumReal => Arc::new(SumReal),
            FilterSpec::Min => Arc::new(Min),
            FilterSpec::Max => Arc::new(Max),
            FilterSpec::Mean => Arc::new(Mean),
            FilterSpec::Histogram(edges) => Arc::new(Histogram::new(edges.clone())?),
            FilterSpec::TopK(count) if *count as usize > TOP_COUNT_MAX => {
                return Err(Bad::TooMany { filter: "top-k", count: *count as usize, count_max: TOP_COUNT_MAX });
            }
            FilterSpec::TopK(count) => Arc::new(TopK { count: *count }),
            FilterSpec::Classes(class_count_max) => Arc::new(Classes { class_count_max: *class_count_max }),
            FilterSpec::Concat(byte_count_max) => Arc::new(Concat { byte_count_max: *byte_count_max }),
            FilterSpec::Own { name, parameters } => {
                let builder = self.builders.get(name).ok_or_else(|| Bad::Unknown { name: name.clone() })?;
                builder(parameters)?
            }
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.builders.keys().chain(self.down_builders.keys())).finish()
    }
}
