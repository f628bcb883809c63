// Serves the demo shop with a mock payment server behind it; `cargo xtask demo` starts it.
import path from "node:path";
import { fileURLToPath } from "node:url";
import { startMock, startSite } from "../../pkg/test/servers.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const mock = await startMock();
const site = await startSite(mock, { "/shop/": here });
console.log(`shop    ${site.url}/shop/`);
console.log(`server  ${mock.url}/`);
console.log("Ctrl-C ends both.");
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    await site.stop();
    await mock.stop();
  });
}
