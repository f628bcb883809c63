//! Ctrl-C: the first one stops in good order, the second one at once.

use crate::exit::Exit;
use tokio::sync::watch;

/// Tells when the user wants to stop.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens from now on; the default, an instant death, would leave entries to be taken over.
    pub(crate) fn listen() -> Interrupt {
        let (tell, heard) = watch::channel(false);
        tokio::spawn(async move {
            asked_to_stop().await;
            let _ = tell.send(true);
            asked_to_stop().await;
            std::process::exit(i32::from(Exit::Unknown.code()));
        });
        Interrupt(heard)
    }

    /// Resolves when it is time to stop.
    pub(crate) async fn asked(&mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            // Nobody can ask any more.
            std::future::pending::<()>().await;
        }
    }
}

async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = term.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
