//! What do we remember? Jobs and windows in an embedded database
