//! Prints a sample page, to look at: `cargo run -p trimtab-report --example pages -- SAMPLE WIDTH|html [ascii]`.
//!
//! Next: `tests/samples/mod.rs` for the samples and their names.

#[path = "../tests/samples/mod.rs"]
mod samples;

use trimtab_report::{Style, html, terminal};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sample, form, ..] = arguments.as_slice() else {
        let names: Vec<&str> = samples::all().into_iter().map(|(name, ..)| name).collect();
        eprintln!("usage: pages SAMPLE WIDTH|html [ascii]; samples: {}", names.join(", "));
        std::process::exit(2);
    };
    let many = ("4096_ranks", "a headline", samples::many_ranks(4096));
    for (name, headline, report) in samples::all().into_iter().chain([many]) {
        if name != sample {
            continue;
        }
        match form.parse() {
            Ok(width) => {
                let unicode = !arguments.iter().any(|argument| argument == "ascii");
                let colour = arguments.iter().any(|argument| argument == "colour");
                print!(
                    "{}",
                    terminal(&report, headline, &Style { colour, width, unicode, paths: false, whole_names: false })
                );
            }
            Err(_) => print!("{}", html(&report, headline)),
        }
    }
}
