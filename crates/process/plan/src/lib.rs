//! Probe request to ordered writes and their undo; pure
