//! `weather --answer`: the other side of pairs, until it is ended.
//!
//! Next: `weather`, which asks.

use crate::arguments::WeatherOptions;
use crate::exit_code::DONE;
use crate::output;
use crate::progress::Terminal;
use anyhow::Context;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use trimtab_engine::sensors::net::{Answerer, Secret, token};

/// Answers until Ctrl-C, or for the seconds of --for if these are more than its default of one.
pub fn run(address: SocketAddr, options: &WeatherOptions, terminal: &Terminal) -> anyhow::Result<u8> {
    let secret = match &options.secret {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
            Secret::parse(&text)
                .with_context(|| format!("{} holds no secret: 32 hexadecimal digits", path.display()))?
        }
        None => Secret::new().context("the kernel gives no random bytes")?,
    };
    let answerer = Answerer::bind(address, secret.clone(), token::OF_MACHINE)
        .with_context(|| format!("can't listen at {address}; give another address or port"))?;
    output::print_text(&format!("answering at {}\nsecret {}", answerer.address(), secret.text()))?;
    let until = (options.seconds > 1).then(|| Instant::now() + Duration::from_secs(u64::from(options.seconds)));
    let ended = answerer.serve(|| terminal.is_interrupted() || until.is_some_and(|until| Instant::now() >= until));
    terminal.finish();
    output::print_text(&format!(
        "answered {} probes with {} bytes; {} others were sent away",
        ended.answered, ended.bytes, ended.refused
    ))?;
    Ok(DONE)
}
