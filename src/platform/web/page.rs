//! The border to the page: what `page.js` and the browser itself give.

use crate::seam::BoxFuture;
use js_sys::Promise;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen(module = "/src/platform/web/page.js")]
extern "C" {
    /// Work of the page that can be ended.
    pub(super) type Work;
    #[wasm_bindgen(method, getter)]
    fn done(this: &Work) -> Promise;
    #[wasm_bindgen(method)]
    fn stop(this: &Work);

    pub(super) fn sleep(millis: f64) -> Work;
    pub(super) fn exchange(
        method: &str,
        url: &str,
        lines: &str,
        body: Option<&[u8]>,
        credentials: &str,
        limit: f64,
        not_after: f64,
    ) -> Work;

    /// What came of an exchange.
    pub(super) type Exchanged;
    #[wasm_bindgen(method, getter)]
    pub(super) fn failure(this: &Exchanged) -> Option<u32>;
    #[wasm_bindgen(method, getter)]
    pub(super) fn detail(this: &Exchanged) -> String;
    #[wasm_bindgen(method, getter)]
    pub(super) fn status(this: &Exchanged) -> u16;
    #[wasm_bindgen(method, getter)]
    pub(super) fn lines(this: &Exchanged) -> String;
    #[wasm_bindgen(method, getter)]
    pub(super) fn body(this: &Exchanged) -> Option<Vec<u8>>;
    #[wasm_bindgen(method, getter)]
    pub(super) fn large(this: &Exchanged) -> Option<bool>;
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(super) fn monotonic_millis() -> f64;
    #[wasm_bindgen(js_namespace = Date, js_name = now)]
    pub(super) fn wall_millis() -> f64;
    #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues, catch)]
    pub(super) fn fill_random(bytes: &mut [u8]) -> Result<JsValue, JsValue>;
}

/// Stops the page's work when nobody waits for it any more.
struct Leash(Work);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Waits for the page's work. It never fails: trouble is part of its answer.
pub(super) fn finished(work: Work) -> BoxFuture<'static, JsValue> {
    let leash = Leash(work);
    Box::pin(async move { JsFuture::from(leash.0.done()).await.unwrap_or_default() })
}
