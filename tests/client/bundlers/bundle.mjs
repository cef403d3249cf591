/**
 * Bundle the app in a folder, `app.js`, into its folder `out`. The arguments are the bundler's name, the folder with the
 * installed bundlers, and the app's folder. Exits with 1 if the bundler complains.
 */

import { createRequire } from "node:module";
import { join } from "node:path";

const [name, installed, app] = process.argv.slice(2);
const require = createRequire(join(installed, "package.json"));
const entry = join(app, "app.js");
const out = join(app, "out");

const BUNDLERS = {
  async esbuild() {
    await require("esbuild").build({ entryPoints: [entry], bundle: true, minify: true, outdir: out });
  },

  async vite() {
    const rolldownOptions = { input: entry, output: { entryFileNames: "app.js" } };
    const build = { outDir: out, modulePreload: false, rolldownOptions };
    await require("vite").build({ root: app, configFile: false, logLevel: "warn", build });
  },

  webpack() {
    const output = { path: out, filename: "app.js" };
    return new Promise((resolve, reject) => {
      require("webpack")({ mode: "production", context: app, entry, output }, (error, stats) => {
        if (error || stats.hasErrors() || stats.hasWarnings()) reject(error ?? new Error(stats.toString()));
        else resolve(null);
      });
    });
  },

  /** As in an app of React Native: its transformer and its condition. */
  async metro() {
    const { loadConfig, runBuild } = require("metro");
    const config = await loadConfig(
      { cwd: app, config: undefined, "reset-cache": true, "max-workers": 1 },
      {
        projectRoot: app,
        watchFolders: [installed],
        reporter: { update: ({ type, error }) => type === "bundling_error" && console.error(error) },
        resolver: { unstable_conditionNames: ["react-native"], nodeModulesPaths: [join(installed, "node_modules")] },
        transformer: { babelTransformerPath: require.resolve("@react-native/metro-babel-transformer") },
      },
    );
    await runBuild(config, {
      entry: "app.js",
      out: join(out, "app.js"),
      platform: "android",
      dev: false,
      minify: false,
    });
  },
};

await BUNDLERS[name]();
process.exit(0);
