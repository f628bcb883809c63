//! Fills a mock with fifty requests and takes the README's picture of its page:
//! `cargo run -p samekey-mock --example picture -- docs/pictures/mock.png [WIDTH HEIGHT]`

#[path = "../tests/checks/browser.rs"]
mod browser;
#[path = "../tests/checks/client.rs"]
#[allow(dead_code, reason = "the picture needs only part of the tests' client")]
mod client;
#[path = "../tests/checks/scene.rs"]
mod scene;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap_or_else(|| "mock.png".into());
    let width = args.next().unwrap_or_else(|| "1280".into());
    let height = args.next().unwrap_or_else(|| "1000".into());
    let Some(browser) = browser::find() else {
        return;
    };
    let mock = samekey_mock::Mock::builder()
        .start()
        .await
        .expect("a free port");
    scene::fifty(&mock).await;
    let (shot, size) = (
        format!("--screenshot={file}"),
        format!("--window-size={width},{height}"),
    );
    browser::run(&browser, &[&shot, &size], &mock.url()).await;
    println!("{file}");
}
