//! How a stream names its filter, and how a node finds it.
//!
//! A stream is opened everywhere by one message, so the filter travels as a description, and each node builds it. Whoever
//! uses the tree registers filters of their own under their names in every agent.
//!
//! Next: `trimtab-overlay`, which opens streams; `trimtab-agent`'s `values` and `parts` for filters that are registered.

use crate::lists::Concat;
use crate::{AnyFilter, Bad, Filter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The filter of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterSpec {
    /// [`Concat`]: at most so many bytes.
    Concat(u32),
    /// One that was registered, by its name.
    Own(String),
}

/// The filters that one program has beside the tree's own.
#[derive(Default)]
pub struct Registry {
    filters: BTreeMap<&'static str, Arc<dyn AnyFilter>>,
}

impl Registry {
    /// Adds a filter, or replaces one of the same name.
    pub fn register(&mut self, filter: impl Filter + Clone + Send + Sync + 'static) {
        self.filters.insert(filter.name(), Arc::new(filter));
    }

    /// The filter that a stream names.
    ///
    /// # Errors
    /// [`Bad::Unknown`] if nobody registered one of that name.
    pub fn build(&self, spec: &FilterSpec) -> Result<Arc<dyn AnyFilter>, Bad> {
        match spec {
            FilterSpec::Concat(byte_count_max) => Ok(Arc::new(Concat { byte_count_max: *byte_count_max })),
            FilterSpec::Own(name) => {
                self.filters.get(name.as_str()).cloned().ok_or_else(|| Bad::Unknown { name: name.clone() })
            }
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.filters.keys()).finish()
    }
}
