//! What the package calls.

use crate::given::{configure, describe, reference};
use crate::told::{self, Answer, fail};
use futures_core::Stream;
use samekey::journal::Select;
use samekey::platform::web::border::{Job, Pack, Values, spawn};
use samekey::{BrowserJournal, Client, Operation};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen(raw_module = "../src/border.ts")]
extern "C" {
    /// Has the package do something: a job.
    pub(crate) fn ask(given: &[u8]) -> u32;
    /// How a call went: 0 well, 1 badly, 2 it goes on.
    fn tell(call: u32, how: u32, told: &[u8]);
}

/// What the package holds by a number. Number 0 is nothing.
enum Thing {
    Client(Client, BrowserJournal),
    Operation(Operation),
}

thread_local! {
    static THINGS: RefCell<Vec<Option<Rc<Thing>>>> = const { RefCell::new(Vec::new()) };
}

fn hold(thing: Thing) -> f64 {
    THINGS.with_borrow_mut(|things| {
        let free = things.iter().position(Option::is_none);
        let place = free.unwrap_or(things.len());
        if free.is_none() {
            things.push(None);
        }
        things[place] = Some(Rc::new(thing));
        (place + 1) as f64
    })
}

fn held(number: u32) -> Option<Rc<Thing>> {
    THINGS.with_borrow(|things| things.get(number.checked_sub(1)? as usize)?.clone())
}

/// Lets go of what the package held by this number.
#[wasm_bindgen]
pub fn free(number: u32) {
    let freed = THINGS.with_borrow_mut(|things| things.get_mut(number as usize - 1)?.take());
    drop(freed);
}

/// Does what the package asks of a thing. The first number is that under which it hears of it, the
/// second the thing's.
#[wasm_bindgen]
pub fn call(given: Vec<u8>) {
    spawn(Box::pin(async move {
        let mut values = Values::new(&given);
        let (call, number) = (values.number() as u32, values.number() as u32);
        let thing = held(number);
        let (how, told) = match perform(call, thing.as_deref(), values).await {
            Ok(told) => (0, told),
            Err(told) => (1, told),
        };
        tell(call, how, told.as_bytes());
    }));
}

/// What an operation's handle knows: of it, or of its outcome.
#[wasm_bindgen]
pub fn look(number: u32, at_outcome: bool) -> Vec<u8> {
    let thing = held(number);
    let Some(Thing::Operation(operation)) = thing.as_deref() else {
        return Vec::new();
    };
    if !at_outcome {
        return told::summary(operation).into();
    }
    match operation.outcome() {
        Ok(Some(outcome)) => told::outcome(&outcome).into(),
        _ => Vec::new(),
    }
}

async fn perform(call: u32, thing: Option<&Thing>, mut values: Values<'_>) -> Answer {
    let what = values.text();
    match thing {
        None => open(&mut values).await,
        Some(Thing::Client(client, journal)) => of_client(client, journal, what, &mut values).await,
        Some(Thing::Operation(operation)) if what == "send" => {
            send(call, operation, values.flag()).await
        }
        Some(Thing::Operation(operation)) => decide(operation, what, values.text()).await,
    }
}

/// Opens the journal and builds a client.
async fn open(values: &mut Values<'_>) -> Answer {
    let (store, name) = (values.text(), values.text());
    let builder = configure(Client::builder(values.text()), values)?;
    let journal = BrowserJournal::open(store, name).await;
    let journal = journal.map_err(|error| fail(error.into()))?;
    let client = builder.journal(journal.clone()).build().map_err(fail)?;
    let mut told = Pack::default();
    let (grade, scope) = (client.grade(), client.scope().clone());
    told.number(hold(Thing::Client(client, journal)));
    told.text(grade.name());
    told.text(scope.as_str());
    Ok(told)
}

fn handles(told: &mut Pack, operations: Vec<Operation>) {
    for operation in operations {
        told.number(hold(Thing::Operation(operation)));
    }
}

async fn of_client(
    client: &Client,
    journal: &BrowserJournal,
    what: &str,
    values: &mut Values<'_>,
) -> Answer {
    let mut told = Pack::default();
    match what {
        // An operation, or a deliberate repeat of an earlier one.
        "begin" => {
            let builder = describe(client, values)?;
            let operation = builder.begin().await.map_err(fail)?;
            handles(&mut told, vec![operation]);
        }
        "wipe" => {
            let wiped = journal.wipe(client.scope()).await;
            let wiped = wiped.map_err(|error| fail(error.into()))?;
            told.number(f64::from(wiped));
        }
        "reap" => drop(client.reap().await.map_err(fail)?),
        "find" => {
            let found = client.find(reference(values.text())?).await;
            handles(&mut told, found.map_err(fail)?);
        }
        _ => {
            let select = match what {
                "unfinished" => Select::Unfinished,
                "attention" => Select::Attention,
                "settled" => Select::Settled,
                _ => Select::All,
            };
            handles(&mut told, client.list(select).await.map_err(fail)?);
        }
    }
    Ok(told)
}

/// Drives an operation to an end, telling of each step. When the page's job `stopped` is done it is let
/// go, as if the page had been left: it can be resumed. `take_up`: also what needs attention.
async fn send(call: u32, operation: &Operation, take_up: bool) -> Answer {
    let mut updates = operation.updates();
    let mut stopped = Pack::of("stopped");
    stopped.number(f64::from(call));
    let mut stopped = Job::number(ask(stopped.as_bytes()));
    let mut drive = pin!(async {
        match take_up {
            true => operation.resume().await,
            false => operation.send().await,
        }
    });
    poll_fn(|context| {
        let driven = drive.as_mut().poll(context);
        while let Poll::Ready(Some(update)) = Pin::new(&mut updates).poll_next(context) {
            tell(call, 2, told::update(&update).as_bytes());
        }
        match driven {
            Poll::Ready(Ok(outcome)) => Poll::Ready(Ok(told::outcome(&outcome))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(fail(error))),
            Poll::Pending => Pin::new(&mut stopped)
                .poll(context)
                .map(|_| Ok(Pack::default())),
        }
    })
    .await
}

/// What a person wants of an operation; told is its state.
async fn decide(operation: &Operation, what: &str, note: &str) -> Answer {
    let phase = match what {
        "cancel" => operation.cancel().await,
        "happened" | "did not happen" => operation.settle(what == "happened", note).await,
        "abandon" => operation.abandon(note).await,
        "release" => operation.release().await,
        "forget" => operation.forget().await.map(|()| operation.phase()),
        _ => operation.refresh().await,
    };
    phase.map(|phase| Pack::of(phase.name())).map_err(fail)
}
