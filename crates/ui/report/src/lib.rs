//! A report for people: terminal and HTML
