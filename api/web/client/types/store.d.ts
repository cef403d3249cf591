/** An observable value. Listeners are called once a microtask, however many changes there were. */
export declare class Store {
    #private;
    state: Readonly<import("./types.d.ts").State>;
    /** @param {import("./types.d.ts").State} state */
    constructor(state: import("./types.d.ts").State);
    /** @param {Partial<import("./types.d.ts").State>} patch */
    update(patch: Partial<import("./types.d.ts").State>): void;
    /** @param {(state: import("./types.d.ts").State) => void} listener */
    subscribe(listener: (state: import("./types.d.ts").State) => void): () => undefined;
}
