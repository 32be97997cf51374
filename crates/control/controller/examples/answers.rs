//! How long questions take: in the library beside reading one row of the store, and over HTTP beside a request of nothing.
//!
//! Prints a line of JSON: for each round, seconds of each, in turns. Next: `cargo xtask bench forecast --only answers`, which judges
//! them.

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_controller::forecasts::grid::Facts;
use trimtab_controller::forecasts::{
    Asked, CommAsked, FactsFrom, GridAsked, GridModels, Host, ModelNamed, Named, SizeMade, TotalAsked, known_host,
    models_of,
};
use trimtab_controller::{Authority, Identity, Machine, NoJob, Options, Role, serve};
use trimtab_store::{History, SeriesName, SeriesValue, Store};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Questions of each kind in a round, and rounds.
const TURNS: u32 = 200;
const ROUNDS: usize = 15;
const DAY: Duration = Duration::from_secs(86_400);

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("site.db");
    let (store, series) = filled(&path)?;
    let library = Library::new(&store)?;
    let mut http = served(folder.path(), Store::open_site(Some(&path))?)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let row_s = each_s(|| Ok(black_box(store.values(&series, 1)).map(|_| ())?))?;
        let stored_s = each_s(|| Library::stored(&store))?;
        let library_s: Vec<f64> = [Library::comp, Library::size, Library::comm, Library::total]
            .into_iter()
            .map(|ask| each_s(|| ask(&library)))
            .collect::<Outcome<_>>()?;
        let nothing_s = each_s(|| http.asked("GET", "/v1/nothing", "", 404))?;
        let http_s: Vec<f64> = questions()
            .iter()
            .map(|(path, body)| each_s(|| http.asked("POST", path, body, 200)))
            .collect::<Outcome<_>>()?;
        rounds.push(json!({
            "row_s": row_s, "library_s": library_s, "from_store_s": stored_s, "nothing_s": nothing_s, "http_s": http_s,
        }));
    }
    println!("{}", json!({ "questions": ["comp", "size", "comm", "total"], "rounds": rounds }));
    Ok(())
}

/// Seconds of one of many.
fn each_s(mut ask: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let begun = Instant::now();
    for _ in 0..TURNS {
        ask()?;
    }
    Ok(begun.elapsed().as_secs_f64() / f64::from(TURNS))
}

/// A store with a model, a host and a value.
fn filled(path: &Path) -> Outcome<(Store, SeriesName)> {
    let mut store = Store::open_site(Some(path))?;
    let named: Named = serde_json::from_value::<ModelNamed>(model())?.checked()?;
    store.note_host(&named.host()?)?;
    store.note_model(&named.kept)?;
    let series = SeriesName { host: "n1".to_owned(), peer: None, figure: "memory_free_bytes".to_owned() };
    let at_unix_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    store.note_values(&[(series.clone(), SeriesValue { at_unix_s, value: 1e9 })])?;
    Ok((store, series))
}

fn model() -> Value {
    let model = |unit: &str, coefficient: f64| {
        json!({
            "parameters": ["n"], "unit": unit, "least": [100.0], "most": [10_000.0], "noise": 0.01, "fixed": 0.001 * coefficient,
            "typical": 100.0 * coefficient, "stray": null,
            "pieces": [{
                "above": [0.0], "up_to": [null], "least": [100.0], "most": [10_000.0], "places": 8,
                "terms": [{ "term": { "factors": [{ "parameter": 0, "power": 1.0, "logs": 0 }] }, "coefficient": coefficient }],
                "rivals": [], "error_median": 0.02, "error_worst": 0.05, "error_beyond": 0.03, "half_width": 0.05, "growth": 0.02,
            }],
        })
    };
    json!({
        "name": "sort", "command": ["sort", "{n}"], "made_unix_s": 1.0, "version": 1, "parameters": ["n"], "setup": null,
        "host": "n1", "host_kind": { "processor": "one", "processors": 2, "clock_mhz": 2600, "memory_gib": 1 },
        "speed": { "compute_per_s": 1e9, "memory_bytes_per_s": 1e10 }, "time_is": "wall", "has_threads": false,
        "time": model("seconds", 0.001), "memory": model("bytes", 1e6), "no_memory": null, "disturbed": 0, "left_out": [],
        "seed": 1, "runs": [],
    })
}

fn facts() -> Value {
    json!({
        "version": 1,
        "hosts": { "n1": { "cpu_share": 0.5, "memory_free_bytes": 8e9 }, "n2": {} },
        "links": [{ "from": "n1", "to": "n2", "bandwidth_bytes_per_s": 1e8, "latency_s": 1e-4, "both_ways": true }],
    })
}

fn comm() -> Value {
    json!({ "data": { "A": "dense:double:1000x1000@n1" }, "to": "n2", "facts": facts() })
}

fn total() -> Value {
    json!({
        "model": "sort", "host": "n1", "args": { "n": "A.length" }, "data": { "A": "vector:double:3000@n2" }, "facts": facts(),
    })
}

/// The four questions over HTTP, in the order of the library's.
fn questions() -> Vec<(&'static str, String)> {
    let size = json!({ "model": "sort", "host": "n1", "args": { "n": 3000 } });
    vec![
        ("/v1/forecasts/comp", size.to_string()),
        ("/v1/forecasts/size", size.to_string()),
        ("/v1/forecasts/comm", comm().to_string()),
        ("/v1/forecasts/total", total().to_string()),
    ]
}

/// Models and facts at hand, as a scheduler has them.
struct Library {
    models: Vec<Named>,
    host: Host,
    grid: GridModels,
    facts: Facts,
    comm: GridAsked,
    total: GridAsked,
}

impl Library {
    fn new(store: &Store) -> Outcome<Library> {
        let mut comm = GridAsked::from(serde_json::from_value::<CommAsked>(comm())?);
        let mut total = GridAsked::from(serde_json::from_value::<TotalAsked>(total())?);
        total.take_facts();
        let mut facts = Facts { age_max_s: comm.age_max_s()?, ..Facts::default() };
        facts.add_given(comm.take_facts().ok_or("no facts")?, 0.0)?;
        Ok(Library {
            models: models_of(store, "sort")?,
            host: known_host(store, "n1", &[])?,
            grid: GridModels::of(store, None)?,
            facts,
            comm,
            total,
        })
    }

    fn sized(&self, asked: Asked) -> Outcome<()> {
        let args = [("n".to_owned(), 3000.0)];
        black_box(SizeMade::of(asked, &args, self.models.clone(), self.host.clone())?.answer());
        Ok(())
    }

    fn comp(&self) -> Outcome<()> {
        self.sized(Asked::Time)
    }

    fn size(&self) -> Outcome<()> {
        self.sized(Asked::Memory)
    }

    fn planned(&self, asked: &GridAsked) -> Outcome<()> {
        let plan = asked.plan(&[])?;
        black_box(asked.answer(&plan, (&self.facts, FactsFrom::Question), &self.grid, 0.0)?);
        Ok(())
    }

    fn comm(&self) -> Outcome<()> {
        self.planned(&self.comm)
    }

    fn total(&self) -> Outcome<()> {
        self.planned(&self.total)
    }

    /// With the model read anew.
    fn stored(store: &Store) -> Outcome<()> {
        let args = [("n".to_owned(), 3000.0)];
        black_box(SizeMade::of(Asked::Time, &args, models_of(store, "sort")?, known_host(store, "n1", &[])?)?.answer());
        Ok(())
    }
}

/// A connection to a controller that is kept.
struct Http(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Http {
    fn asked(&mut self, method: &str, path: &str, body: &str, expected: u32) -> Outcome<()> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let (mut byte_count, mut line, mut status) = (0, String::new(), None);
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err("the controller has ended".into());
            }
            status = status.or_else(|| line.split(' ').nth(1)?.parse::<u32>().ok());
            if let Some(count) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                byte_count = count.trim().parse()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut answer = vec![0; byte_count];
        self.0.read_exact(&mut answer)?;
        match status == Some(expected) {
            true => Ok(()),
            false => Err(format!("{path}: {status:?} {}", String::from_utf8_lossy(&answer)).into()),
        }
    }
}

/// A controller with this store, and a connection of a user's to it.
fn served(folder: &Path, store: Store) -> Outcome<Http> {
    let authority = Authority::create(&folder.join("authority"))?;
    let identity = |role: Role, name: &str| -> Outcome<Identity> {
        let path = folder.join(name);
        authority.issue(&role, DAY, &path)?;
        Ok(Identity::load(&path)?)
    };
    let user = identity(Role::User { uid: 7 }, "user.pem")?;
    let identity = identity(Role::Controller, "controller.pem")?;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let machine = Machine {
        slurm_jobs: |_| Err("no Slurm".into()),
        user_name: |_| None,
        running_job: |id| Err(NoJob::NotSlurm(id.to_owned())),
        lead: || Err(std::io::ErrorKind::Unsupported.into()),
    };
    let audit = folder.join("audit.jsonl");
    let options = Options { identity, listen: any, listen_tree: any, fan_out: 2, store, audit, machine };
    let (sender, ready) = channel();
    std::thread::spawn(move || serve(options, |api, _| sender.send(api).unwrap_or_default()));
    let api = ready.recv_timeout(Duration::from_secs(20))?;
    let name = ServerName::try_from(Role::Controller.name())?;
    let tls = ClientConnection::new(Arc::new(user.client()?), name)?;
    let stream = TcpStream::connect(api)?;
    stream.set_nodelay(true)?;
    Ok(Http(BufReader::new(StreamOwned::new(tls, stream))))
}
