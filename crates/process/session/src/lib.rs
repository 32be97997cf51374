//! Attach, plan, apply, read, restore: one running process
