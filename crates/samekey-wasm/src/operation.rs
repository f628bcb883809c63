//! One operation.

use crate::told::{self, Work, promise};
use futures_core::Stream;
use js_sys::{Function, Promise};
use samekey::{Operation, Updates};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// An operation; the package's `Operation` is made of it.
#[wasm_bindgen]
pub struct RawOperation(Rc<Operation>);

impl RawOperation {
    pub(crate) fn new(operation: Operation) -> RawOperation {
        RawOperation(Rc::new(operation))
    }
}

fn tell(updates: &mut Updates, listener: &Function, context: &mut Context<'_>) {
    while let Poll::Ready(Some(update)) = Pin::new(&mut *updates).poll_next(context) {
        // A listener that throws must not stop a payment.
        let _ = listener.call1(&JsValue::UNDEFINED, &told::update(&update));
    }
}

#[wasm_bindgen]
impl RawOperation {
    /// Drives it to an end, telling `listener` of each step. When `stop` is fulfilled it is let go,
    /// as if the page had been left: it can be resumed.
    pub fn send(&self, listener: Function, stop: Promise) -> Promise {
        let operation = Rc::clone(&self.0);
        promise(Box::pin(async move {
            let mut updates = operation.updates();
            let mut stop = JsFuture::from(stop);
            let mut drive = pin!(operation.send());
            poll_fn(|context| {
                let driven = drive.as_mut().poll(context);
                tell(&mut updates, &listener, context);
                match driven {
                    Poll::Ready(Ok(outcome)) => Poll::Ready(Ok(told::outcome(&outcome))),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(told::error(error))),
                    Poll::Pending => Pin::new(&mut stop).poll(context).map(|_| Ok(JsValue::NULL)),
                }
            })
            .await
        }))
    }

    /// What a person wants of it: to cancel it, to settle it as happened or not, to abandon it, to
    /// read it again or to forget it. A promise of its state.
    pub fn decide(&self, what: String, note: String) -> Promise {
        let operation = Rc::clone(&self.0);
        let work: Work = Box::pin(async move {
            let phase = match what.as_str() {
                "cancel" => operation.cancel().await,
                "happened" => operation.settle(true, &note).await,
                "did not happen" => operation.settle(false, &note).await,
                "abandon" => operation.abandon(&note).await,
                "forget" => operation.forget().await.map(|()| operation.phase()),
                _ => operation.refresh().await,
            };
            phase.map(|phase| phase.name().into()).map_err(told::error)
        });
        promise(work)
    }

    /// What this handle knows.
    pub fn summary(&self) -> JsValue {
        told::summary(&self.0)
    }

    /// The outcome, if it ended.
    pub fn outcome(&self) -> JsValue {
        match self.0.outcome() {
            Ok(Some(outcome)) => told::outcome(&outcome),
            _ => JsValue::UNDEFINED,
        }
    }
}
