//! The pages as goldens, and what must hold for any report: lines fit, nothing invented, nothing escapes.

mod samples;

use trimtab_report::{ListedJob, ListedWindow, Style, html, list, terminal};
use trimtab_types::report::{EventKind, FunctionGroup, Report};
use unicode_width::UnicodeWidthStr;

const PLAIN: Style = Style { colour: false, width: 100, unicode: true, paths: false, whole_names: false };

/// One golden per sample: a person reviews each as a page.
#[test]
fn terminal_pages() {
    for (name, headline, report) in samples::all() {
        insta::assert_snapshot!(format!("terminal_{name}"), terminal(&report, headline, &PLAIN));
    }
}

#[test]
fn terminal_page_in_colour() {
    let style = Style { colour: true, ..PLAIN };
    let page = terminal(&samples::invalid(), "a headline", &style);
    insta::assert_snapshot!("terminal_colour", page.replace('\u{1b}', "ESC"));
}

#[test]
fn terminal_page_narrow_and_ascii() {
    for (name, report) in [("by_time", samples::by_time()), ("sixty_four_ranks", samples::sixty_four_ranks())] {
        let page = terminal(&report, "a headline that has to be broken at sixty columns ± something", &narrow());
        assert!(page.is_ascii(), "{name}: {page}");
        insta::assert_snapshot!(format!("narrow_{name}"), page);
    }
}

fn narrow() -> Style {
    Style { colour: false, width: 60, unicode: false, paths: false, whole_names: false }
}

#[test]
fn every_line_fits_at_any_width_and_number_of_ranks() {
    let many = [1, 2, 7, 8, 16, 17, 32, 33, 100, 4096].map(|ranks| ("many", "headline", samples::many_ranks(ranks)));
    for (name, headline, report) in samples::all().into_iter().chain(many) {
        for width in [60, 72, 80, 120, 200] {
            let page = terminal(
                &report,
                headline,
                &Style { colour: false, width, unicode: true, paths: false, whole_names: false },
            );
            let widest = page.lines().map(UnicodeWidthStr::width).max().unwrap();
            let ranks = report.ranks.len();
            assert!(widest <= width, "{name}, {ranks} ranks, {width} columns: {widest} wide\n{page}");
            assert!(page.lines().count() < 180, "{name}, {ranks} ranks: {} lines", page.lines().count());
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    for (name, headline, report) in samples::all() {
        let coloured = terminal(&report, headline, &Style { colour: true, ..PLAIN });
        assert!(coloured.contains("\u{1b}["), "{name}");
        assert_eq!(without_colour(&coloured), terminal(&report, headline, &PLAIN), "{name}");
    }
}

/// The page without its escape sequences, line ends trimmed as the page does.
fn without_colour(page: &str) -> String {
    let mut text = String::new();
    let mut pieces = page.split('\u{1b}');
    text += pieces.next().unwrap();
    for piece in pieces {
        text += piece.split_once('m').unwrap().1;
    }
    text.lines().map(|line| line.trim_end().to_string() + "\n").collect()
}

#[test]
fn nothing_measured_is_never_a_number() {
    let of_each_rank = Report { reduced: None, ..samples::bare() };
    let page = terminal(&of_each_rank, "headline", &PLAIN);
    let expected = [
        "per iteration  not measured",
        "counts         page faults, context switches: not measured",
        "share          not measured",
        "first record   not measured",
        "imbalance      not measured",
        "pauses         not measured",
        "probes         not measured",
    ];
    for line in expected {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let summed = terminal(&samples::bare(), "headline", &PLAIN);
    assert!(summed.contains("page faults, context switches: of all ranks together not known"), "{summed}");
    let mut report = samples::two_ranks();
    report.window.groups = vec![FunctionGroup::User];
    (report.communication_fraction, report.imbalance, report.communication_to_computation) = (None, None, None);
    report.links.clear();
    let page = terminal(&report, "headline", &PLAIN);
    assert!(
        page.contains("communication  not measured") && page.contains("Time per rank: communication not measured"),
        "{page}"
    );
    assert!(!page.contains(" comm "), "no column of made-up zeros: {page}");
    let page = html(&report, "headline");
    assert!(!page.contains("class=\"communication\""), "no bars of made-up zeros");
}

#[test]
fn cost_above_the_bar_warns() {
    for (fraction, warns) in [(0.0199, false), (0.0201, true)] {
        let mut report = samples::two_ranks();
        report.cost.fraction = Some(fraction);
        let [terminal, html] = [terminal(&report, "h", &PLAIN), html(&report, "h")];
        assert_eq!(terminal.contains("above the bar"), warns, "{fraction}");
        assert_eq!(
            html.contains("<div class=\"tile warn\">") && html.contains("<dd class=\"warn\">"),
            warns,
            "{fraction}"
        );
    }
}

/// Of several threads that compute at a time, CPU time says nothing of waiting, also where they share one processor.
#[test]
fn threads_that_want_more_than_a_processor_hide_how_a_rank_waits() {
    let said = |waited_s: Option<f64>| {
        let mut report = samples::two_ranks();
        let mut node = samples::node_share();
        node.host.clone_from(&report.ranks[0].host);
        node.places.iter_mut().for_each(|place| place.waited_s = waited_s.map(|share| share * node.seconds));
        report.nodes = vec![node];
        terminal(&report, "a headline", &PLAIN).contains("on the CPU")
    };
    assert_eq!([None, Some(0.01), Some(0.9)].map(said), [true, true, false]);
}

#[test]
fn hostile_names_steer_no_terminal() {
    let (_, headline, report) = samples::all().into_iter().find(|(name, ..)| *name == "hostile").unwrap();
    let page = terminal(&report, headline, &PLAIN);
    let steering = page.chars().find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c));
    assert_eq!(steering, None);
}

#[test]
fn hostile_names_stay_text_in_html() {
    let (_, headline, report) = samples::all().into_iter().find(|(name, ..)| *name == "hostile").unwrap();
    let page = html(&report, headline);
    assert_eq!(page.matches("<script").count(), 2, "the data and our own script");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img") && !page.contains("\u{1b}") && !page.contains('\0'));
    let drawn = page.split("<script").next().unwrap();
    assert!(!drawn.contains('\u{202e}'), "nothing turns a line around");
    assert!(page.contains("&lt;img src=x onerror=alert(2)&gt;"), "the name is shown as text");
    let quotes_closed = page.split("data-tip=\"").skip(1).all(|rest| rest.split('"').next().unwrap().contains("rank "));
    assert!(quotes_closed, "a tooltip ends early");
    assert_eq!(embedded(&page), report, "the data itself is unchanged");
}

/// The report that a page carries.
fn embedded(page: &str) -> trimtab_types::report::Report {
    let json = page
        .split("<script type=\"application/json\" id=\"report\">")
        .nth(1)
        .unwrap()
        .split("</script>")
        .next()
        .unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn html_needs_no_network() {
    for (name, headline, report) in samples::all() {
        let page = html(&report, headline);
        for outside in ["src=\"", "url(", "@import", "fetch(", "XMLHttpRequest", "<link", "href=\""] {
            assert!(!page.contains(outside), "{name} has {outside}");
        }
        let addresses: Vec<&str> =
            page.split("http").skip(1).filter(|rest| rest.starts_with("://") || rest.starts_with("s://")).collect();
        let name_of_svg = |rest: &&str| rest.starts_with("://www.w3.org/2000/svg\"");
        assert!(addresses.iter().all(name_of_svg), "{name} has an address");
        assert!(page.contains("default-src 'none'"), "{name}");
    }
}

#[test]
fn html_draws_every_rank_and_pair() {
    let page = html(&samples::four_ranks(), "headline");
    assert_eq!(page.matches("<rect class=\"computation\"").count(), 4);
    assert_eq!(page.matches("<polyline class=\"line s").count(), 4);
    assert_eq!(page.matches("<rect class=\"heat\"").count(), 8 + 5, "eight links and five shades of the scale");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn html_of_many_ranks_keeps_the_extreme_one_and_stays_small() {
    let report = samples::many_ranks(4096);
    let page = html(&report, "headline");
    assert!(page.len() < 12 << 20, "{} bytes", page.len());
    assert!(page.contains("data-tip=\"rank 37 on node1"), "the slow rank has its column");
    assert_eq!(page.matches("<rect class=\"computation\"").count(), 4096_usize.div_ceil(10));
    let mut long = samples::many_ranks(64);
    for rank in &mut long.ranks {
        rank.iteration_times_s = (0..40_000).map(|i| 0.0125 + f64::from(i) * 1e-9).collect();
    }
    let page = html(&long, "headline");
    assert!(page.len() < 12 << 20 && page.contains("leaves out the single iteration times"), "{} bytes", page.len());
    assert_eq!(embedded(&page).ranks[0].iteration_times_s.len(), 0);
}

#[test]
fn odd_numbers_break_no_page() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, f64::MAX, f64::MIN_POSITIVE] {
        let mut report = samples::four_ranks();
        report.window.duration_s = odd;
        report.window.started_unix_s = Some(odd);
        report.cost.fraction = Some(odd);
        report.imbalance = Some(odd);
        for rank in &mut report.ranks {
            (rank.duration_s, rank.communication_s, rank.computation_s) = (odd, Some(odd), Some(odd));
            (rank.cpu_s, rank.iteration_times_s) = (Some(odd), vec![odd; 3]);
        }
        for link in &mut report.links {
            (link.bytes, link.messages, link.to) = (u64::MAX, u64::MAX, u32::MAX);
        }
        let page = html(&report, "headline");
        let drawn = page.split("</header>").nth(1).unwrap().split("<script").next().unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("\"inf") && !drawn.contains("\"-inf"), "{odd}");
        let text = terminal(&report, "headline", &PLAIN);
        assert!(!text.contains("NaN") && !text.contains("inf "), "{odd}: {text}");
    }
}

#[test]
fn lists() {
    let window = ListedWindow {
        started_unix_s: Some(samples::STARTED_UNIX_S),
        valid: true,
        communication_fraction: Some(0.386),
        time_per_iteration_s: Some(3.16e-3),
        event: None,
    };
    let job = |id: &str, newest: Option<ListedWindow>| ListedJob {
        id: id.into(),
        program: "/opt/app/bin/particle".into(),
        arguments: vec!["--mesh".into(), "256\u{1b}[31m".into()],
        ranks: 64,
        windows: u32::from(newest.is_some()) * 12,
        newest,
    };
    let by_time =
        ListedWindow { time_per_iteration_s: None, valid: false, event: Some(EventKind::JobStart), ..window.clone() };
    let jobs = [job("particle-3", Some(window)), job("particle-12", Some(by_time)), job("lmp-1", None)];
    let now = samples::STARTED_UNIX_S + 7300.0;
    insta::assert_snapshot!("list", list(&jobs, now, &PLAIN));
    insta::assert_snapshot!("list_narrow", list(&jobs, now, &narrow()));
    insta::assert_snapshot!("list_empty", list(&[], now, &PLAIN));
}

#[test]
fn the_whole_path_is_shown_where_it_is_asked_for() {
    let report = samples::everything();
    let page = |paths: bool| terminal(&report, "headline", &Style { paths, ..PLAIN });
    let path = "by pmpi_allreduce_+0x5c (libmpi_mpifh.so.40), by solve at solver.f90:214 (cg)";
    assert!(page(true).contains(path), "{}", page(true));
    assert!(!page(false).contains("pmpi_allreduce_"), "{}", page(false));
}

/// Whoever reads a narrow page still knows the function and its line; a file has every name as it is.
#[test]
fn places_are_recognised_on_narrow_pages_and_whole_in_files() {
    let mut report = samples::four_ranks();
    let place = "LAMMPS_NS::CommBrick::forward_comm(LAMMPS_NS::Fix*, int)";
    let frame = report.paths[0].path.last_mut().expect("the program's own");
    (frame.function, frame.line) = (place.to_string(), Some("src/comm_brick.cpp:512".to_string()));
    for width in [60, 80, 100] {
        let page = terminal(&report, "headline", &Style { width, ..PLAIN });
        for part in ["forward_comm(", "at", "comm_brick.cpp:512"] {
            assert!(page.contains(part), "{part} at {width} columns:\n{page}");
        }
        assert!(page.lines().all(|line| line.width() <= width), "{width}:\n{page}");
    }
    let page = terminal(&report, "headline", &Style { width: 40, whole_names: true, ..PLAIN });
    assert!(page.contains(&format!("{place} at src/comm_brick.cpp:512  ")), "{page}");
    assert!(!page.contains("too narrow") && !page.contains('…'), "{page}");
}

/// gfortran gives one line to calls that it has drawn together: their rows are told apart all the same.
#[test]
fn calls_of_one_line_are_told_apart() {
    let mut report = samples::four_ranks();
    report.paths.truncate(1);
    report.paths.push(report.paths[0].clone());
    assert!(
        !terminal(&report, "headline", &PLAIN).contains(":214 +0x"),
        "the same call on another way has the same place"
    );
    report.paths[1].path.last_mut().expect("the program's own").offset += 0x10;
    let page = terminal(&report, "headline", &PLAIN);
    let offsets = report.paths.iter().map(|row| format!(":214 +{:#x} ", row.path.last().expect("a frame").offset));
    offsets.for_each(|offset| assert_eq!(page.matches(&offset).count(), 1, "{offset}\n{page}"));
}
