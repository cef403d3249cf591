// Loads Mermaid on the pages that have diagrams. The theme calls window.mermaid; without one it would load it from a CDN.
(() => {
  const source = new URL("vendor/mermaid/mermaid.tiny.js", document.currentScript.src);
  // Diagrams keep their size: one that is wider than the page scrolls, so its text stays readable.
  const size = { useMaxWidth: false };
  let loading;
  let options = {};

  const load = () =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = source;
      script.onload = () => {
        window.mermaid.initialize(options);
        resolve(window.mermaid);
      };
      script.onerror = () => reject(new Error(`${source} could not be loaded`));
      document.head.append(script);
    });

  window.mermaid = {
    initialize(given) {
      options = {
        ...given,
        flowchart: size,
        state: size,
        sequence: {
          ...size,
          diagramMarginX: 10,
          width: 95,
          height: 45,
          actorMargin: 32,
          wrapPadding: 4, // with 0, Mermaid draws the lines of a label over each other
          mirrorActors: false,
          wrap: true,
        },
      };
    },
    async render(...diagram) {
      loading ??= load();
      return (await loading).render(...diagram);
    },
  };
})();
