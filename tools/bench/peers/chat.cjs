"use strict";
/*
 * What both chat peers do, whatever carries their frames: they check a signed token, read the user's sessions when a
 * socket signs in, and store each message once by the client's id, in one statement that PostgreSQL commits to disk.
 *
 * They do less than the service, which favours them: no check that the session is still active, no read markers, one
 * sequence for the whole table instead of one without gaps for each session, no foreign key, no pushes.
 *
 * Environment: DATABASE_URL with the service's tables, REDIS_URL, JWT_SECRETS as for the service.
 */
const crypto = require("node:crypto");
const { Pool } = require("pg");
const { createClient } = require("redis");

const POOL_SIZE = 20; // as in an API process of the service
const LONGEST = 4000;
const SECRET = process.env.JWT_SECRETS.split(",")[0].split(":")[1];
const TABLE = `CREATE TABLE IF NOT EXISTS peer_messages (
  id uuid PRIMARY KEY,
  session_id uuid NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  sender_id uuid NOT NULL,
  client_message_id uuid NOT NULL,
  content text NOT NULL,
  created_at timestamptz NOT NULL,
  UNIQUE (session_id, sender_id, client_message_id))`;
const PARTNERS = {
  name: "partners",
  text: `SELECT id, CASE customer_id WHEN $1 THEN mitra_id ELSE customer_id END AS partner_id
    FROM chat_sessions WHERE (customer_id = $1 OR mitra_id = $1) AND status = 'active'`,
};
// Returns no row for a message that is already stored.
const STORE = {
  name: "store",
  text: `INSERT INTO peer_messages (id, session_id, sender_id, client_message_id, content, created_at)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (session_id, sender_id, client_message_id) DO NOTHING RETURNING seq`,
};
const STORED = {
  name: "stored",
  text: `SELECT id, seq, created_at FROM peer_messages
    WHERE session_id = $1 AND sender_id = $2 AND client_message_id = $3`,
};

const url = new URL(process.env.DATABASE_URL);
url.search = "";
const pool = new Pool({ connectionString: url.href, max: POOL_SIZE });

/** Return the user's id of a valid access token, otherwise undefined. */
function userOf(token) {
  const [head, claims, signature] = String(token).split(".");
  if (signature === undefined) return undefined;
  const expected = crypto.createHmac("sha256", SECRET).update(`${head}.${claims}`).digest();
  const given = Buffer.from(signature, "base64url");
  if (given.length !== expected.length || !crypto.timingSafeEqual(given, expected)) return undefined;
  const { sub, aud, exp } = JSON.parse(Buffer.from(claims, "base64url"));
  return aud === "public" && exp * 1000 > Date.now() ? sub : undefined;
}

/** Return the other party in each session of a user. */
async function partnersOf(user) {
  const { rows } = await pool.query({ ...PARTNERS, values: [user] });
  return new Map(rows.map((row) => [row.id, row.partner_id]));
}

/** Store a message; return its acknowledgement, and the message for the other party if it is new. */
async function store(user, { session_id, client_message_id, content }) {
  if (typeof content !== "string" || content.length === 0 || content.length > LONGEST) throw new Error("content");
  const id = crypto.randomUUID();
  const created_at = new Date().toISOString();
  const key = [session_id, user, client_message_id];
  const { rows } = await pool.query({ ...STORE, values: [id, ...key, content, created_at] });
  if (rows.length === 0) {
    const stored = (await pool.query({ ...STORED, values: key })).rows[0];
    return { ack: { ...stored, seq: Number(stored.seq), client_message_id } };
  }
  const ack = { id, seq: Number(rows[0].seq), created_at, client_message_id };
  return { ack, message: { ...ack, session_id, sender_id: user, content } };
}

/** Create the table, and return two connections to Redis, of which the second only subscribes. */
async function begin() {
  await pool.query(TABLE);
  const publisher = createClient({ url: process.env.REDIS_URL });
  const subscriber = publisher.duplicate();
  await Promise.all([publisher.connect(), subscriber.connect()]);
  return [publisher, subscriber];
}

module.exports = { begin, partnersOf, store, userOf };
