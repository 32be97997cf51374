//! The project's own commands: `cargo xtask demo`, `test`, `tidy`, `bench`.

fn main() -> anyhow::Result<()> {
    anyhow::bail!("no command yet")
}
