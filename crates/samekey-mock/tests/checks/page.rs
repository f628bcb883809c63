//! The page in a real browser: its rows are the ledger's rows.

use crate::browser;
use crate::client::{Ask, key};
use crate::driver::Driver;
use crate::proof::quiet;
use crate::scene::fifty;
use samekey_mock::{Event, Ledger};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// One row as the page or the ledger has it.
type Row = BTreeMap<&'static str, String>;

const FIELDS: [&str; 7] = [
    "id", "key", "tenant", "events", "status", "faults", "effect",
];

fn attribute(tag: &str, name: &str) -> String {
    let start = format!("{name}=\"");
    let from = tag.split_once(&start).map_or("", |(_, rest)| rest);
    from.split('"').next().unwrap_or("").replace("&amp;", "&")
}

fn rows_of_page(html: &str) -> BTreeMap<u64, Row> {
    let tags = html
        .split("<li class=\"request")
        .skip(1)
        .filter_map(|part| part.split('>').next());
    let row = |tag: &str| -> Row {
        FIELDS
            .map(|field| (field, attribute(tag, &format!("data-{field}"))))
            .into_iter()
            .collect()
    };
    tags.map(|tag| (attribute(tag, "data-id").parse().unwrap(), row(tag)))
        .collect()
}

fn rows_of_ledger(ledger: &Ledger) -> BTreeMap<u64, Row> {
    let word = |event: &Event| {
        serde_json::to_value(event)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    let rows = ledger.requests().iter().map(|r| {
        let values = [
            r.id.to_string(),
            r.key.clone().unwrap_or_default(),
            r.tenant.clone(),
            r.events.iter().map(word).collect::<Vec<_>>().join(" "),
            r.status.map_or_else(String::new, |s| s.to_string()),
            r.faults.join(" "),
            r.effect.map_or_else(String::new, |e| e.to_string()),
        ];
        (r.id, FIELDS.into_iter().zip(values).collect())
    });
    rows.collect()
}

fn figure(html: &str, name: &str) -> String {
    let part = html
        .split_once(&format!("data-figure=\"{name}\""))
        .map_or("", |(_, rest)| rest);
    part.split_once("<b>")
        .map_or("", |(_, rest)| rest)
        .split('<')
        .next()
        .unwrap_or("")
        .to_owned()
}

#[tokio::test]
async fn m29_the_page_shows_exactly_what_the_ledger_says() {
    let Some(browser) = browser::find() else {
        return;
    };
    let mock = quiet().start().await.unwrap();
    fifty(&mock).await;
    let ledger = mock.ledger();
    assert_eq!(ledger.requests().len(), 50);
    for event in [
        Event::InFlight,
        Event::Mismatch,
        Event::Replayed,
        Event::Dropped,
    ] {
        assert!(ledger.count(event) > 0, "{event:?} is missing in the scene");
    }
    let html = browser::run(&browser, &["--dump-dom"], &mock.url()).await;
    assert_eq!(rows_of_page(&html), rows_of_ledger(&ledger));
    assert_eq!(figure(&html, "requests"), "50");
    assert_eq!(figure(&html, "effects"), ledger.effects().len().to_string());
    assert_eq!(
        figure(&html, "happened twice!"),
        ledger.duplicates().len().to_string()
    );
    for key in ledger.keys() {
        let reference = key.reference.as_deref().unwrap();
        assert!(html.contains(reference), "{reference}");
    }
    // The twin: one more request, and a page read before it is no longer the truth.
    Ask::order(mock.address(), &key(99)).send().await;
    assert_ne!(rows_of_page(&html), rows_of_ledger(&mock.ledger()));
}

#[tokio::test]
async fn the_page_is_complete_without_a_network() {
    let mock = quiet().start().await.unwrap();
    for path in ["/", "/_mock/page.css", "/_mock/page.js"] {
        let text = Ask::get(mock.address(), path).send().await.body;
        let foreign = ["https://", "http://", "//cdn", "@import"];
        let found = foreign.iter().filter(|word| {
            text.replace("http://www.w3.org/2000/svg", "")
                .contains(**word)
        });
        assert_eq!(found.count(), 0, "{path} names something elsewhere");
    }
}

/// The page has a word, a shape and a meaning for every event there is.
#[test]
fn the_page_knows_every_event() {
    let script = include_str!("../../src/page/page.js");
    for event in Event::ALL {
        let name = serde_json::to_value(event).unwrap();
        assert!(
            script.contains(&format!("{name}: [")),
            "{name} has no shape"
        );
    }
}

#[tokio::test]
async fn m31_faults_are_switched_on_by_clicking() {
    let Some(browser) = browser::find() else {
        return;
    };
    let clicks = clicked(&browser);
    // A browser that hangs must not hang the run.
    tokio::time::timeout(Duration::from_secs(90), clicks)
        .await
        .expect("the browser answers");
}

async fn clicked(browser: &Path) {
    let mock = quiet().start().await.unwrap();
    let page = Driver::start(browser).await;
    page.open(&mock.url()).await;
    page.click("[data-fault='drop-after-commit']").await;
    let rules = Ask::get(mock.address(), "/_mock/faults");
    while rules.send().await.json()["rules"][0] != "drop-after-commit*1" {}
    page.click("[data-send='new']").await;
    let ledger = mock.wait_for(|l| l.count(Event::Dropped) == 1).await;
    let key = ledger.requests()[0].key.clone().unwrap();
    page.click("[data-send='again']:not([disabled])").await;
    mock.wait_for(|l| l.requests_of(&key).iter().any(|r| r.had(Event::Replayed)))
        .await;
    page.click("[data-send='crowd']").await;
    let ledger = mock.wait_for(|l| l.requests().len() >= 66).await;
    page.quit().await;
    assert_eq!(
        ledger.effects().len(),
        2,
        "one lost answer, one crowd of 64"
    );
    assert!(ledger.keys().iter().all(|k| k.effects == 1));
}
