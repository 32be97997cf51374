//! ptrace, /proc and remote memory of Linux; unsafe lives here
