//! Which processes are one program?
