export declare const REVOKED = 4403;
/** @param {number | null} code null for a lost connection */
export declare const closeCode: (code: number | null) => {
    rangeS?: number;
    renew?: boolean;
    final?: boolean;
};
