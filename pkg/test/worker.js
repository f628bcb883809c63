// A page's worker as many are: whatever it cannot get, it answers with its own page.
let online = false;
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("message", (event) => {
  online = true;
  event.source.postMessage("done");
});
addEventListener("fetch", (event) => {
  if (online || event.request.method !== "POST") return;
  event.respondWith(new Response("<h1>You are offline</h1>", { headers: { "Content-Type": "text/html" } }));
});
