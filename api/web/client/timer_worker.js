// Timers of a worker go on at full pace while the page is hidden.
addEventListener("message", ({ data }) => setInterval(() => postMessage(null), data));
