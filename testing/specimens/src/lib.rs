//! Small programs to attach to, each with a known answer
