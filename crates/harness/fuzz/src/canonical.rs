//! The JSON body that is frozen: the same value gives the same bytes, whatever order its members
//! had.

use crate::{Check, Target, rule, shape, texts};
use samekey::entry::Kept;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub(crate) const TARGET: Target = Target {
    name: "canonical",
    check: |data| check(frozen, data),
    planted: &[|data| check(as_it_comes, data)],
    words: &[
        "{\"b\":1,\"a\":2}",
        "\"\\u00e9\"",
        "\"é\"",
        "[[",
        "]]",
        "{}",
        "null",
        "true",
        "-0.0",
        "1e21",
        "18446744073709551615",
        "\"\":",
        ",\"a\":",
        "\\ud83d\\ude00",
        "0.1",
    ],
    made: || {
        texts(&[
            r#"{"b":[{"z":1,"a":[true,null]}],"a":{"d":"x","c":-1.5}}"#,
            r#"{"":0,"a":1,"A":2,"aa":3,"é":4,"\u0000":5}"#,
            r#"[1,2.5,"three",{"four":4,"five":[]}]"#,
        ])
    },
};

/// A value whose members are written from the front or from the back.
struct Ordered<'a>(&'a Value, bool);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Ordered(value, backwards) = *self;
        match value {
            Value::Array(items) => {
                serializer.collect_seq(items.iter().map(|item| Ordered(item, backwards)))
            }
            Value::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                let mut members: Vec<_> = members.iter().collect();
                if backwards {
                    members.reverse();
                }
                for (name, member) in members {
                    map.serialize_entry(name, &Ordered(member, backwards))?;
                }
                map.end()
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

type Write = fn(&Ordered<'_>) -> Option<Vec<u8>>;

/// The body as `begin` freezes it.
fn frozen(value: &Ordered<'_>) -> Option<Vec<u8>> {
    let client = samekey::testing::client();
    let builder = client.operation("a").post("https://api.example.com/");
    let mut begun = pin!(builder.json(value).begin());
    match begun.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(operation)) => match &operation.entry().frozen.body {
            Kept::Plain(bytes) => Some(bytes.to_vec()),
            _ => None,
        },
        _ => None,
    }
}

/// A bug: nothing is sorted.
fn as_it_comes(value: &Ordered<'_>) -> Option<Vec<u8>> {
    serde_json::to_vec(value).ok()
}

fn check(write: Write, data: &[u8]) -> Check {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return Ok(0);
    };
    let first = write(&Ordered(&value, false)).ok_or("a value can be frozen")?;
    let second = write(&Ordered(&value, true)).ok_or("a value can be frozen")?;
    rule(first == second, "the order of members makes no other body")?;
    let read: Value = serde_json::from_slice(&first).map_err(|_| "what is frozen is JSON")?;
    // The reader may round a float's last digit; what it then is must stay.
    if read == value {
        let again = write(&Ordered(&read, false));
        rule(
            again.as_ref() == Some(&first),
            "what is sorted stays as it is",
        )?;
    } else {
        rule(has_float(&value), "what is frozen is the value")?;
    }
    let mut size = 0;
    sorted(&read, &mut size)?;
    Ok(shape(&(size, first.len() / 8)))
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(members) => members.values().any(has_float),
        _ => false,
    }
}

/// Counts what nests, and looks at the order of members wherever the reader keeps it.
fn sorted(value: &Value, size: &mut usize) -> Result<(), String> {
    *size += 1;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| sorted(item, size)),
        Value::Object(members) => {
            let names: Vec<_> = members.keys().collect();
            rule(
                names.is_sorted(),
                "members stand in the order of their names",
            )?;
            members.values().try_for_each(|member| sorted(member, size))
        }
        _ => Ok(()),
    }
}
