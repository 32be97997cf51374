//! Main-loop detection, agreement, statistics: the measuring window; pure
