//! How do we read a program? ELF, DWARF and eh_frame to functions; bytes in, facts out
