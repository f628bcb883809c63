//! The border to the page: what `page.js` and the browser itself give.

use crate::seam::border::{Job, Pack};
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen(module = "/src/platform/web/page.js")]
extern "C" {
    fn ask(given: &[u8]) -> u32;
    pub(super) fn random() -> Option<Vec<u8>>;
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(super) fn monotonic_millis() -> f64;
    #[wasm_bindgen(js_namespace = Date, js_name = now)]
    pub(super) fn wall_millis() -> f64;
}

/// Has the page do something.
pub(super) fn start(asked: &Pack) -> Job {
    Job::number(ask(asked.as_bytes()))
}
