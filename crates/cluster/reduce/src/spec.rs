//! How a stream names its filter, and how a node finds it.
//!
//! A stream is opened everywhere by one message, so the filter travels as a description with its parameters, and each
//! node builds it. A user's own filter is registered under a name in every agent.
//!
//! Next: `trimtab-overlay`, which opens streams.

use crate::lists::Concat;
use crate::numbers::Sum;
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

/// The users' own filters of one program.
#[derive(Default)]
pub struct Registry {
    builders: BTreeMap<String, Builder>,
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

    /// The filter that a stream names.
    pub fn build(&self, spec: &FilterSpec) -> Result<Arc<dyn AnyFilter>, Bad> {
        Ok(match spec {
            FilterSpec::Sum => Arc::new(Sum),
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
        f.debug_set().entries(self.builders.keys()).finish()
    }
}
